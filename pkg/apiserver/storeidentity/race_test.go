// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var configMapResource = schema.GroupResource{Resource: "configmaps"}

// TestReplicasEndWithOneID starts several servers at once on one etcd and one new cluster.
func TestReplicasEndWithOneID(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset()
	countVersions(t, host)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var replicas sync.WaitGroup
	guards := make([]*Guard, 5)
	for i := range guards {
		guards[i] = newGuard(fmt.Sprintf("replica%d", i), kv, host)
		replicas.Go(func() { guards[i].Run(ctx) })
	}
	for i, g := range guards {
		select {
		case <-g.Verified():
		case <-ctx.Done():
			t.Fatalf("replica %d: %v", i, g.Err())
		}
	}
	// Each begins one epoch, unless it gives up for others' writes and waits for its next turn.
	waitFor(ctx, t, "the cluster has the store's epoch", func() bool {
		inStore, _, err := guards[0].store.read(ctx)
		return err == nil && inStore.Epoch >= 1 && readConfigMap(t, host).Data[StoreEpochKey] == fmt.Sprint(inStore.Epoch)
	})
	cancel()
	replicas.Wait()
	inStore, _, err := guards[0].store.read(t.Context())
	if err != nil || inStore.ID == "" || inStore.Pending {
		t.Fatalf("the store has %+v, error %v", inStore, err)
	}
	expectCluster(t, host, inStore.ID)
	for i, g := range guards {
		if err := g.Err(); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
}

// TestStoresRaceForOneCluster has two servers that each found a new cluster, with stores of their own by mistake.
func TestStoresRaceForOneCluster(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	guards := []*Guard{newGuard("a", newKV(t), host), newGuard("b", newKV(t), host)}
	errs := make([]error, len(guards))
	var servers sync.WaitGroup
	for i, g := range guards {
		servers.Go(func() { errs[i] = g.evaluate(t.Context()) })
	}
	servers.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("errors are %v, want exactly one to be refused", errs)
	}
	expectError(t, errors.Join(errs...), "the cluster's resources belong to store")
}

// TestConflict changes the ConfigMap between the guard's read and its write: the consent is withdrawn just in time.
func TestConflict(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset(configMap("old", "new-1"))
	g := newGuard("new", newKV(t), host)
	if err := g.store.write(t.Context(), storeRecord{ID: "new-1", Pending: true}, 0); err != nil {
		t.Fatal(err)
	}
	host.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := host.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), configMap("old", ""), testNamespace); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(configMapResource, ConfigMapName, errors.New("changed"))
	})
	expectError(t, evaluate(t, g), "belong to store old,")
	expectCluster(t, host, "old")
	expectStore(t, g, storeRecord{ID: "new-1", Pending: true})
}

// TestEndlessConflict ends with a message that does not blame the store, and the next round goes on.
func TestEndlessConflict(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset(configMap("", ""))
	failing := true
	host.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, apierrors.NewConflict(configMapResource, ConfigMapName, errors.New("changed"))
	})
	g := newGuard("x", newKV(t), host)
	expectError(t, evaluate(t, g), errUnsettled.Error())
	failing = false
	if err := evaluate(t, g); err != nil {
		t.Error(err)
	}
}

func TestClusterErrors(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	noNamespace := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, testNamespace)
	terminating := apierrors.NewForbidden(configMapResource, ConfigMapName, errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tc := range []struct {
		name, verb string
		err        error
		want       []string
	}{
		{"down", "get", errors.New("connection refused"), []string{
			"reading configmap inference-cache-system/inference-cache-store: connection refused"}},
		{"forbidden", "get", apierrors.NewForbidden(configMapResource, ConfigMapName, errors.New("no")), []string{
			"reading configmap", "needs get and update on this configmap, and create on configmaps, in namespace inference-cache-system"}},
		{"create forbidden", "create", apierrors.NewForbidden(configMapResource, ConfigMapName, errors.New("no")), []string{
			"creating configmap", "needs get and update"}},
		{"unauthorized", "get", apierrors.NewUnauthorized("no"), []string{"does not accept this server's credentials"}},
		{"no namespace", "create", noNamespace, []string{"creating configmap", "create namespace inference-cache-system first"}},
		{"namespace goes", "create", terminating, []string{"namespace inference-cache-system is being deleted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			host := fake.NewClientset()
			broken := true
			host.PrependReactor(tc.verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return broken, nil, tc.err
			})
			g := newGuard("x", kv, host)
			expectError(t, evaluate(t, g), tc.want...)
			expectError(t, g.Check(nil), tc.want...)
			broken = false
			if err := evaluate(t, g); err != nil {
				t.Errorf("when the cause is gone: %v", err)
			}
		})
	}
}

// TestEtcdDown uses a context that is over for a server that does not answer.
func TestEtcdDown(t *testing.T) {
	t.Parallel()
	g := newGuard("x", newKV(t), fake.NewClientset())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expectError(t, g.evaluate(ctx), "reading the store's identity from etcd")
	g.Run(ctx) // returns
	if err := g.Err(); !errors.Is(err, errUnchecked) {
		t.Errorf("an interrupted evaluation left %v, want %v", err, errUnchecked)
	}
}
