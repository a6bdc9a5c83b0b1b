// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Command apiserver is the aggregated API server of inferencecache.io.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"inferencecache.io/inferencecache/pkg/apiserver"
	"inferencecache.io/inferencecache/pkg/version"
)

func init() {
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
}

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	options := apiserver.NewOptions()
	logging := logs.NewOptions()
	cmd := &cobra.Command{
		Use:   "inferencecache-apiserver",
		Short: "Serve the inferencecache.io API",
		Long: "Serves the API group inferencecache.io behind a Kubernetes API server. Objects are kept in an\n" +
			"etcd inside this process, in --data-dir, or in the one that --etcd-servers names.",
		Version:      version.String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			// Feature gates are read by everything that follows.
			if err := options.ServerRun.ComponentGlobalsRegistry.Set(); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(logging, utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			if err := options.Validate(); err != nil {
				return err
			}
			ctx := genericapiserver.SetupSignalContext()
			server, err := apiserver.New(ctx, options)
			if err != nil {
				return fmt.Errorf("starting: %w", err)
			}
			return server.Run(ctx)
		},
	}
	flags := cmd.Flags()
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	logsapi.AddFlags(logging, flags)
	options.AddFlags(flags)
	return cmd
}
