// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controller provisions the tiers of CacheBackends and reports on them.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"inferencecache.io/inferencecache/pkg/version"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	var options options
	logging := logs.NewOptions()
	cmd := &cobra.Command{
		Use:   "inferencecache-controller",
		Short: "Provision the tiers of CacheBackends and report on them",
		Long: "Provisions the managed remote tiers of CacheBackends and publishes in their status how they are.\n" +
			"Several of them may run with --leader-elect: one works, the others wait.",
		Version:      version.String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			ctrl.SetLogger(klog.Background())
			restConfig, err := config.GetConfig()
			if err != nil {
				return fmt.Errorf("finding the cluster: %w", err)
			}
			manager, err := newManager(restConfig, options)
			if err != nil {
				return fmt.Errorf("starting: %w", err)
			}
			return manager.Start(ctrl.SetupSignalHandler())
		},
	}
	flags := cmd.Flags()
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	logsapi.AddFlags(logging, flags)
	options.addFlags(flags)
	kubeconfig := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(kubeconfig)
	flags.AddGoFlagSet(kubeconfig)
	return cmd
}
