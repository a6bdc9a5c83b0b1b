// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strings"
	"syscall"
	"testing"
)

const policy = `apiVersion: inferencecache.io/v1alpha1
kind: CachePolicy
metadata:
  name: kept
`

// TestAPIServerRestart walks through what the tests of the whole system do with a cluster.
func TestAPIServerRestart(t *testing.T) {
	c, err := Start(t.Context(), Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if c.APIServerPID() != 0 {
			t.Error("the API server is left")
		}
	}()
	serve := func(args ...string) {
		t.Helper()
		if err := c.StartAPIServer(args...); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitAPIServerReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	serve()
	if err := c.StartAPIServer(); err == nil {
		t.Error("a second API server is started beside the first")
	}
	if _, _, err := c.KubectlInput(t.Context(), strings.NewReader(policy), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if err := c.KillAPIServer(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Kubectl(t.Context(), "get", "cachepolicies"); err == nil {
		t.Error("the API is served without the API server")
	}
	serve("-v=3")
	stdout, _, err := c.Kubectl(t.Context(), "get", "cachepolicies", "-o", "name")
	if err != nil || !strings.Contains(stdout, "kept") {
		t.Errorf("after kill -9 and a restart: %q, %v", stdout, err)
	}
	if err := c.StopAPIServer(); err != nil {
		t.Error(err)
	}
}

func TestMissingLauncher(t *testing.T) {
	t.Setenv(launcherEnv, "/nowhere/cluster")
	_, err := Start(t.Context(), Options{})
	if err == nil || !strings.Contains(err.Error(), "make cluster-programs") {
		t.Errorf("error %v does not name the make target", err)
	}
}

func TestCancelledStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Log: t.Output(), WithoutManifests: true}); err == nil {
		t.Error("a cluster is started although the caller has given up")
	}
}
