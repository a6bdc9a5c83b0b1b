// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"inferencecache.io/inferencecache/pkg/apiserver/etcd"
)

// configMapAt is configMap with an epoch.
func configMapAt(id, epoch, accepted string) *corev1.ConfigMap {
	cm := configMap(id, accepted)
	cm.Data[StoreEpochKey] = epoch
	return cm
}

func putStore(t *testing.T, g *Guard, record storeRecord) {
	t.Helper()
	_, revision, err := g.store.read(t.Context())
	if err == nil {
		err = g.store.write(t.Context(), record, revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve is a start of a server, up to its first epoch.
func serve(t *testing.T, g *Guard) {
	t.Helper()
	if err := evaluate(t, g); err != nil {
		t.Fatal(err)
	}
	if err := g.advance(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func expectClusterEpoch(t *testing.T, host *fake.Clientset, id, epoch string) {
	t.Helper()
	expectCluster(t, host, id)
	if got := readConfigMap(t, host).Data[StoreEpochKey]; got != epoch {
		t.Errorf("the cluster has seen epoch %q, want %q", got, epoch)
	}
}

// countVersions gives the fake cluster the optimistic concurrency of a real one.
func countVersions(t *testing.T, host *fake.Clientset) {
	t.Helper()
	var mu sync.Mutex
	host.PrependReactor("update", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		cm := action.(clienttesting.UpdateAction).GetObject().(*corev1.ConfigMap).DeepCopy()
		resource := corev1.SchemeGroupVersion.WithResource("configmaps")
		present, err := host.Tracker().Get(resource, testNamespace, cm.Name)
		if err != nil {
			return true, nil, err
		}
		if present.(*corev1.ConfigMap).ResourceVersion != cm.ResourceVersion {
			return true, nil, apierrors.NewConflict(configMapResource, cm.Name, errors.New("changed"))
		}
		cm.ResourceVersion += "x"
		return true, cm, host.Tracker().Update(resource, cm, testNamespace)
	})
}

func waitFor(ctx context.Context, t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("never: %s", what)
	}
}

// TestOlderCopyIsRefusedUntilAccepted copies the files of a store between two starts, as a backup does.
func TestOlderCopyIsRefusedUntilAccepted(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	dir, backup := t.TempDir(), t.TempDir()
	// session is the life of one server.
	session := func(dir string, use func(g *Guard)) {
		server, err := etcd.Start(t.Context(), etcd.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		client, err := etcd.NewClient(etcd.ClientOptions{Endpoints: server.Endpoints()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		use(newGuard("x", client, host))
	}
	session(dir, func(g *Guard) { serve(t, g) })
	expectClusterEpoch(t, host, "x-1", "1")
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	session(dir, func(g *Guard) { serve(t, g) })
	expectClusterEpoch(t, host, "x-1", "2")

	session(backup, func(g *Guard) {
		const command = "with: kubectl -n inference-cache-system annotate --overwrite configmap inference-cache-store " +
			"inferencecache.io/accept-store=x-1@1"
		for _, useless := range []string{"", "x-1", "x-1@0", "x-1@2", "y@1"} {
			update(t, host, configMapAt("x-1", "2", useless))
			expectError(t, evaluate(t, g), "this is an older state of store x-1 (epoch 1, the cluster has seen 2): ",
				"mount the newer one, or accept this state and lose what was written since "+command)
			expectError(t, g.Check(nil), command)
		}
		expectStore(t, g, storeRecord{ID: "x-1", Epoch: 1})
		update(t, host, configMapAt("x-1", "2", "x-1@1"))
		if err := evaluate(t, g); err != nil {
			t.Fatalf("after the consent: %v", err)
		}
		expectClusterEpoch(t, host, "x-1", "1")
		cm := readConfigMap(t, host)
		if got, left := cm.Annotations[AcceptStoreAnnotation]; left {
			t.Errorf("the consent to %s was left", got)
		}
		if got, changed := cm.Data[PreviousStoreIDKey]; changed {
			t.Errorf("previous store is %q, but it is the same", got)
		}
	})
	session(backup, func(g *Guard) { serve(t, g) }) // told once
	expectClusterEpoch(t, host, "x-1", "2")
}

// TestInstallationsWithoutEpochsGoOn has what servers wrote before there were epochs.
func TestInstallationsWithoutEpochsGoOn(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset(configMap("a", ""))
	g := newGuard("x", kv, host)
	if _, err := kv.Put(t.Context(), g.store.key, `{"id":"a"}`); err != nil {
		t.Fatal(err)
	}
	serve(t, g)
	expectStore(t, g, storeRecord{ID: "a", Epoch: 1})
	expectClusterEpoch(t, host, "a", "1")

	// The backup of such a store counts as the first epoch of all.
	putStore(t, g, storeRecord{ID: "a"})
	expectError(t, evaluate(t, newGuard("x", kv, host)), "(epoch 0, the cluster has seen 1)", "accept-store=a@0")
	update(t, host, configMapAt("a", "1", "a@0"))
	serve(t, newGuard("x", kv, host))
	expectClusterEpoch(t, host, "a", "1")
}

func TestAcceptedStoreBringsItsEpoch(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset(configMapAt("old", "9", "b"))
	g := newGuard("x", newKV(t), host)
	putStore(t, g, storeRecord{ID: "b", Epoch: 4, Pending: true})
	if err := evaluate(t, g); err != nil {
		t.Fatal(err)
	}
	expectStore(t, g, storeRecord{ID: "b", Epoch: 4})
	expectClusterEpoch(t, host, "b", "4")
}

func TestDamagedClusterEpoch(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	g := newGuard("x", newKV(t), host)
	serve(t, g)
	for _, damaged := range []string{"-1", "one", "1.5"} {
		update(t, host, configMapAt("x-1", damaged, ""))
		expectError(t, newGuard("y", g.store.kv, host).evaluate(t.Context()), "inference-cache-store: storeEpoch is no epoch")
	}
	update(t, host, configMapAt("x-1", " 1\n", ""))
	serve(t, newGuard("y", g.store.kv, host))
}
