// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster builds and runs a real Kubernetes control plane on this machine, without containers.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"inferencecache.io/inferencecache/hack/cluster/launcher"
)

//go:embed go.mod
var goMod []byte

//go:embed go.sum
var goSum []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Builds and runs a real Kubernetes control plane on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(buildCommand(), upCommand(), downCommand(), runCommand(), statusCommand())
	return root
}

// settings are the flags that "up" and "run" share.
type settings struct {
	dir                           string
	options                       launcher.Options
	apiServerArgs, controllerArgs string
}

func (s *settings) addFlags(cmd *cobra.Command) {
	addDirFlag(cmd, &s.dir)
	flags := cmd.Flags()
	flags.IntVar(&s.options.Nodes, "nodes", 3, "number of simulated nodes")
	flags.IntVar(&s.options.Port, "port", 0, "port of kube-apiserver; 0 takes a free one")
	flags.StringVar(&s.options.Overlay, "overlay", "artifacts/overlays/local", "kustomization with the manifests of the project's own processes")
	flags.BoolVar(&s.options.Prepare, "prepare", false, "apply the manifests and make identities and certificates for the project's own processes, even for those that are not started")
	flags.StringVar(&s.options.APIServerProgram, "apiserver-bin", "", "inferencecache-apiserver program to start")
	flags.StringVar(&s.apiServerArgs, "apiserver-args", "", "further arguments for it, quoted as in a shell")
	flags.StringVar(&s.options.ControllerProgram, "controller-bin", "", "inferencecache-controller program to start")
	flags.StringVar(&s.controllerArgs, "controller-args", "", "further arguments for it, quoted as in a shell")
}

func addDirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "_output/local", "folder of the cluster")
}

// complete makes the paths absolute: programs and manifests are used from other folders too.
func (s *settings) complete() (err error) {
	for _, path := range []*string{&s.dir, &s.options.Overlay, &s.options.APIServerProgram, &s.options.ControllerProgram} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("resolving path: %w", err)
		}
	}
	if s.options.APIServerArgs, err = launcher.SplitArgs(s.apiServerArgs); err != nil {
		return fmt.Errorf("reading --apiserver-args: %w", err)
	}
	if s.options.ControllerArgs, err = launcher.SplitArgs(s.controllerArgs); err != nil {
		return fmt.Errorf("reading --controller-args: %w", err)
	}
	return nil
}

func modules() launcher.Modules { return launcher.Modules{Mod: goMod, Sum: goSum} }

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the programs of the control plane, unless that has been done, and print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			programs, err := launcher.Build(cmd.Context(), modules(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), programs.Dir)
			return nil
		},
	}
}

func upCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster in the background; replace the project's own processes if it runs with others",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.complete(); err != nil {
				return err
			}
			programs, err := launcher.Locate(modules())
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			run := append([]string{self, "run"}, os.Args[2:]...) // The flags are the same.
			return launcher.Up(cmd.Context(), s.dir, s.options, programs, run, cmd.OutOrStdout())
		},
	}
	s.addFlags(cmd)
	return cmd
}

func runCommand() *cobra.Command {
	var s settings
	var untilStdinCloses, removeDir bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a cluster in the foreground; print one line of JSON when it is ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.complete(); err != nil {
				return err
			}
			programs, err := launcher.Locate(modules())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			if untilStdinCloses {
				go func() {
					_, _ = io.Copy(io.Discard, cmd.InOrStdin())
					cancel()
				}()
			}
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGUSR1)
			err = launcher.Run(ctx, s.dir, s.options, programs, cmd.OutOrStdout(), cmd.ErrOrStderr(), reload)
			interrupted := errors.Is(err, context.Canceled)
			if removeDir && (err == nil || interrupted) {
				if err := os.RemoveAll(s.dir); err != nil {
					return fmt.Errorf("removing the cluster's folder: %w", err)
				}
			}
			if interrupted {
				return errors.New("interrupted before the cluster was ready")
			}
			return err
		},
	}
	s.addFlags(cmd)
	cmd.Flags().BoolVar(&untilStdinCloses, "until-stdin-closes", false, "stop when standard input ends, as it does when the parent process is gone")
	cmd.Flags().BoolVar(&removeDir, "remove-dir", false, "remove the cluster's folder, logs and all, at the end; after a failure it stays")
	return cmd
}

func downCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove its data; the logs stay",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := filepath.Abs(dir)
			if err != nil {
				return fmt.Errorf("resolving path: %w", err)
			}
			return launcher.Down(cmd.Context(), dir, cmd.OutOrStdout())
		},
	}
	addDirFlag(cmd, &dir)
	return cmd
}

func statusCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell what runs; the exit status is 0 when the cluster is up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := filepath.Abs(dir)
			if err != nil {
				return fmt.Errorf("resolving path: %w", err)
			}
			return launcher.Status(cmd.Context(), dir, cmd.OutOrStdout())
		},
	}
	addDirFlag(cmd, &dir)
	return cmd
}
