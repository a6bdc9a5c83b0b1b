// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wiring tests the Pod webhook as its users meet it: pods are created through kube-apiserver, which calls the
// webhook over TLS. Its tests share one cluster and one API server process, which they restart, stop and replace, and so
// run one after the other; each begins with serving, whatever the one before has left.
package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
	"inferencecache.io/inferencecache/test/cluster"
)

const (
	// patience is how long anything may take before a test fails. It is far above what is needed, because no test is
	// about speed.
	patience = 2 * time.Minute
	interval = 20 * time.Millisecond

	systemNamespace = "inference-cache-system"
	storeConfigMap  = "inference-cache-store"
	apiServiceName  = "v1alpha1.inferencecache.io"
)

// environment is the cluster that all tests share, and an administrator's clients of it.
type environment struct {
	*cluster.Cluster
	kube       kubernetes.Interface
	inference  versioned.Interface
	aggregator aggregatorclient.Interface
	etcd       *clientv3.Client
	// storeArgs make the API server keep its objects in the cluster's own etcd, where tests can put objects that
	// admission refuses.
	storeArgs []string
	// storeID is the identity of that store.
	storeID string
	// runningArgs are the further arguments that the API server was started with.
	runningArgs []string
}

// env is set before the first test. Only the functions of this file change it.
var env *environment

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Nodes: 2}, func(ctx context.Context, c *cluster.Cluster) (func(bool) error, error) {
		var err error
		if env, err = install(ctx, c); err != nil {
			return nil, err
		}
		return func(bool) error { return env.etcd.Close() }, nil
	}))
}

// install starts the API server for the first time, on the cluster's own etcd.
func install(ctx context.Context, c *cluster.Cluster) (*environment, error) {
	e := &environment{Cluster: c}
	config := c.RESTConfig()
	config.QPS = -1
	var err error
	if e.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if e.inference, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if e.aggregator, err = aggregatorclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	store, err := c.Store(ctx)
	if err != nil {
		return nil, err
	}
	if e.etcd, err = store.Client(); err != nil {
		return nil, err
	}
	e.storeArgs = store.APIServerArgs()
	if err := errors.Join(c.StartAPIServer(e.storeArgs...), c.WaitAPIServerReady(ctx)); err != nil {
		return nil, err
	}
	e.runningArgs = slices.Clone(e.storeArgs)
	known, err := e.kube.CoreV1().ConfigMaps(systemNamespace).Get(ctx, storeConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the identity of the store: %w", err)
	}
	e.storeID = known.Data["storeID"]
	return e, nil
}

// serving makes the API server run on the cluster's own etcd, with those further arguments and no others, and waits until
// pods reach its webhook.
func serving(t testing.TB, args ...string) {
	t.Helper()
	servingFrom(t, env.storeArgs, args...)
}

// servingFrom is serving on another store, which the cluster is told to accept.
func servingFrom(t testing.TB, store []string, args ...string) {
	t.Helper()
	startServer(t, store, args...)
	if slices.Equal(store, env.storeArgs) {
		acceptStore(t, env.storeID)
	}
	waitServing(t)
}

// startServer starts the API server, unless it runs with just those arguments, and does not wait.
func startServer(t testing.TB, store []string, args ...string) {
	t.Helper()
	args = slices.Concat(store, args)
	if env.APIServerPID() != 0 && slices.Equal(args, env.runningArgs) {
		return
	}
	stopServer(t)
	if err := env.StartAPIServer(args...); err != nil {
		t.Fatal(err)
	}
	env.runningArgs = args
}

// stopServer ends the API server as a kubelet does.
func stopServer(t testing.TB) {
	t.Helper()
	if err := env.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
}

// acceptStore consents to a store, if it is not the cluster's already.
func acceptStore(t testing.TB, id string) {
	t.Helper()
	maps := env.kube.CoreV1().ConfigMaps(systemNamespace)
	known, err := maps.Get(t.Context(), storeConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if known.Data["storeID"] == id {
		return
	}
	consent := fmt.Appendf(nil, `{"metadata":{"annotations":{"inferencecache.io/accept-store":%q}}}`, id)
	if _, err := maps.Patch(t.Context(), storeConfigMap, types.MergePatchType, consent, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitServing waits until the API and the webhook are reached through kube-apiserver.
func waitServing(t testing.TB) {
	t.Helper()
	eventually(t, "the API server gets ready", func(ctx context.Context) error {
		if env.APIServerPID() == 0 {
			t.Fatalf("the API server has ended:\n%s", env.APIServerLogTail())
		}
		return env.APIServerReady(ctx)
	})
	// Any change makes kube-apiserver look at once, and not within half a minute.
	nudge := fmt.Appendf(nil, `{"metadata":{"annotations":{"wiring-test/nudge":"%d"}}}`, time.Now().UnixNano())
	_, err := env.aggregator.ApiregistrationV1().APIServices().Patch(t.Context(), apiServiceName, types.MergePatchType, nudge, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := env.WaitAPIServerReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods reach the webhook", func(ctx context.Context) error {
		probe, err := tryCreate(ctx, newPod(metav1.NamespaceDefault, "probe"), dryRun)
		if err == nil && probe.outcome() == "" {
			err = fmt.Errorf("annotations of the audit event: %v", probe.audit)
		}
		return err
	})
}

// eventually waits until the check returns no error.
func eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("not tried yet")
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v\n%s", what, last, env.APIServerLogTail())
	}
}
