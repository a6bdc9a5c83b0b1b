// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the API as its users meet it: through kube-apiserver, its aggregator, the API server as a process of
// its own, and etcd.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
	"inferencecache.io/inferencecache/test/cluster"
)

// environment is the cluster that all tests share, and an administrator's clients of it.
type environment struct {
	cluster   *cluster.Cluster
	config    *rest.Config
	inference versioned.Interface
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	etcd      *clientv3.Client
}

// env is set before the first test and not changed any more.
var env *environment

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Nodes: 1}, func(ctx context.Context, c *cluster.Cluster) (func(bool) error, error) {
		var err error
		if env, err = newEnvironment(ctx, c); err != nil {
			return nil, err
		}
		return func(bool) error { return env.etcd.Close() }, nil
	}))
}

// newEnvironment starts the API server on the cluster's own etcd.
func newEnvironment(ctx context.Context, c *cluster.Cluster) (*environment, error) {
	e := &environment{cluster: c, config: c.RESTConfig()}
	e.config.QPS = -1
	e.config.WarningHandlerWithContext = rest.NoWarnings{}
	var err error
	if e.inference, err = versioned.NewForConfig(e.config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if e.kube, err = kubernetes.NewForConfig(e.config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if e.dynamic, err = dynamic.NewForConfig(e.config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	store, err := c.Store(ctx)
	if err != nil {
		return nil, err
	}
	if e.etcd, err = store.Client(); err != nil {
		return nil, err
	}
	err = c.StartAPIServer(store.APIServerArgs()...)
	if err == nil {
		err = c.WaitAPIServerReady(ctx)
	}
	if err == nil {
		err = e.waitPublished(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.etcd.Close())
	}
	return e, nil
}

// waitPublished waits until kube-apiserver has our schemas too. It fetches them some seconds after a server has become
// available; until then kubectl checks manifests itself instead of asking the server to.
func (e *environment) waitPublished(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		paths, err := e.kube.Discovery().OpenAPIV3().Paths()
		if err != nil {
			return false, err
		}
		_, published := paths["apis/"+v1alpha1.APIVersion.String()]
		return published, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the schemas: %w", err)
	}
	return nil
}
