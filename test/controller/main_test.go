// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller tests the controller on a real control plane, with the rights that the manifests give it. Its tests
// share one cluster; those that watch or restart the controller run before all others, which run side by side.
package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
	"inferencecache.io/inferencecache/test/cluster"
)

const (
	// patience is how long anything may take before a test fails. It is far above what is needed, because no test is
	// about speed.
	patience = 3 * time.Minute
	interval = 100 * time.Millisecond

	// controllerEnv names another controller than the one that the Makefile builds.
	controllerEnv = "INFERENCECACHE_CONTROLLER_BIN"
)

// environment is the cluster that all tests share, and an administrator's clients of it.
type environment struct {
	*cluster.Cluster
	kube       kubernetes.Interface
	inference  versioned.Interface
	controller *exec.Cmd
}

// env is set before the first test.
var env *environment

// extraArgs are what a test gives the controller besides, when it starts it. They come last, where they win.
var extraArgs []string

func TestMain(m *testing.M) {
	// Pods on the network of their node need a node each.
	os.Exit(cluster.Main(m, cluster.Options{Nodes: 10}, func(ctx context.Context, c *cluster.Cluster) (func(bool) error, error) {
		var err error
		if env, err = install(ctx, c); err != nil {
			return nil, err
		}
		return func(bool) error { return errors.Join(denied(), env.stopController()) }, nil
	}))
}

func install(ctx context.Context, c *cluster.Cluster) (*environment, error) {
	e := &environment{Cluster: c}
	config := c.RESTConfig()
	config.QPS = -1
	var err error
	if e.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if e.inference, err = versioned.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := e.StartAPIServer(); err != nil {
		return nil, err
	}
	if err := c.WaitAPIServerReady(ctx); err != nil {
		return nil, err
	}
	return e, e.startController(ctx)
}

// startController starts the controller and waits until it is ready.
func (e *environment) startController(ctx context.Context) error {
	program := os.Getenv(controllerEnv)
	if program == "" {
		program = filepath.Join(cluster.Root(), "_output", "bin", "inferencecache-controller")
	}
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("the controller's program is missing, build it with `make build`: %w", err)
	}
	log, err := os.OpenFile(e.Controller.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the controller's log: %w", err)
	}
	defer log.Close()
	// There is no cache server to ask, unless a test has one.
	args := slices.Concat(e.Controller.Args, []string{"--leader-elect", "-v=4", "--server-probe-url="}, extraArgs)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cluster.StartProcess(cmd); err != nil {
		return fmt.Errorf("starting the controller: %w", err)
	}
	e.controller = cmd
	config := &rest.Config{Host: "http://127.0.0.1:" + strconv.Itoa(e.Controller.Port), Timeout: 5 * time.Second}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, interval, patience, true, func(context.Context) (bool, error) {
		response, err := client.Get(config.Host + "/readyz")
		if err != nil {
			return false, nil
		}
		response.Body.Close()
		return response.StatusCode == 200, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the controller, see %s: %w", e.Controller.Log, err)
	}
	return nil
}

// stopController ends the controller as a kubelet does, and demands that it ends well.
func (e *environment) stopController() error {
	if e.controller == nil {
		return nil
	}
	cmd := e.controller
	e.controller = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the controller: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the controller ended badly, see %s: %w", e.Controller.Log, err)
	}
	return nil
}
