// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// runGuard runs a guard that begins an epoch every few milliseconds. What it returns ends it.
func runGuard(t *testing.T, ctx context.Context, g *Guard) (end func()) {
	t.Helper()
	g.period = wait.Backoff{Duration: 2 * time.Millisecond}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	end = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("Run goes on without its context")
		}
	}
	t.Cleanup(end)
	return end
}

func storeEpoch(t *testing.T, g *Guard) uint64 {
	t.Helper()
	record, _, err := g.store.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record.Epoch
}

func TestRunMovesOnUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	g := newGuard("x", newKV(t), host)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	end := runGuard(t, ctx, g)
	waitFor(ctx, t, "some epochs", func() bool {
		cm, err := host.CoreV1().ConfigMaps(testNamespace).Get(ctx, ConfigMapName, metav1.GetOptions{})
		return err == nil && len(cm.Data[StoreEpochKey]) > 1 // 10 or more
	})
	end()
	// It may have ended between its two writes.
	if err := evaluate(t, newGuard("x", g.store.kv, host)); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestReplicasMoveOnTogether ends with the maximum on both sides, whoever wrote last.
func TestReplicasMoveOnTogether(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset()
	countVersions(t, host)
	guards := []*Guard{newGuard("a", kv, host), newGuard("b", kv, host), newGuard("c", kv, host)}
	for _, g := range guards {
		if err := evaluate(t, g); err != nil {
			t.Fatal(err)
		}
	}
	var replicas sync.WaitGroup
	for _, g := range guards {
		replicas.Go(func() {
			for range 10 {
				// A replica that is always too late leaves it to the others.
				if err := g.advance(t.Context()); err != nil && !errors.Is(err, errUnsettled) {
					t.Error(err)
				}
				// Nor may a start at any moment take a store that moves on for an older one.
				if err := newGuard("new", kv, host).evaluate(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	replicas.Wait()
	serve(t, guards[0])
	epoch := storeEpoch(t, guards[0])
	if epoch < 10 {
		t.Errorf("epoch %d after thirty", epoch)
	}
	expectClusterEpoch(t, host, "a-1", fmt.Sprint(epoch))
}

// TestCrashBetweenTheWrites leaves the store ahead, which is served and settled by the next epoch.
func TestCrashBetweenTheWrites(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	g := newGuard("x", newKV(t), host)
	serve(t, g)
	crashed := true
	host.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return crashed, nil, errors.New("crashed")
	})
	expectError(t, g.advance(t.Context()), "updating configmap", "crashed")
	expectStore(t, g, storeRecord{ID: "x-1", Epoch: 2})
	expectClusterEpoch(t, host, "x-1", "1")
	crashed = false
	serve(t, newGuard("x", g.store.kv, host))
	expectStore(t, g, storeRecord{ID: "x-1", Epoch: 3})
	expectClusterEpoch(t, host, "x-1", "3")
}

// TestStartWhileAnotherMovesOn has a replica do both writes while a start reads, which must not take the store for an
// older one.
func TestStartWhileAnotherMovesOn(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	g := newGuard("x", newKV(t), host)
	serve(t, g)
	var once sync.Once
	host.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		once.Do(func() {
			putStore(t, g, storeRecord{ID: "x-1", Epoch: 2})
			cm := configMapAt("x-1", "2", "")
			if err := host.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), cm, testNamespace); err != nil {
				t.Error(err)
			}
		})
		return false, nil, nil
	})
	if err := evaluate(t, newGuard("x", g.store.kv, host)); err != nil {
		t.Error(err)
	}
}

// TestConflictKeepsTheMaximum has another replica write a later epoch just before.
func TestConflictKeepsTheMaximum(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	g := newGuard("x", newKV(t), host)
	serve(t, g)
	host.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		putStore(t, g, storeRecord{ID: "x-1", Epoch: 7})
		cm := configMapAt("x-1", "7", "")
		if err := host.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), cm, testNamespace); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(configMapResource, ConfigMapName, errors.New("changed"))
	})
	if err := g.advance(t.Context()); err != nil {
		t.Error(err)
	}
	expectStore(t, g, storeRecord{ID: "x-1", Epoch: 7})
	expectClusterEpoch(t, host, "x-1", "7")
}

// TestAdvanceLeavesOthersAlone has somebody change the store or the cluster under a server that was verified.
func TestAdvanceLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset()
	g := newGuard("x", kv, host)
	serve(t, g)

	update(t, host, configMapAt("other", "5", ""))
	expectError(t, g.advance(t.Context()), `has store "x-1" by now`, `belong to store "other"`)
	expectStore(t, g, storeRecord{ID: "x-1", Epoch: 1})
	expectClusterEpoch(t, host, "other", "5")

	update(t, host, configMapAt("x-1", "5", "")) // the store was put back
	expectError(t, g.advance(t.Context()), errWentBack.Error())
	expectClusterEpoch(t, host, "x-1", "5")

	// One that is gone is made anew, and a consent that nobody needs is not kept for a later copy.
	if err := host.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), ConfigMapName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	serve(t, g)
	expectClusterEpoch(t, host, "x-1", "3")
	update(t, host, configMapAt("x-1", "3", "x-1@3"))
	serve(t, g)
	if got, left := readConfigMap(t, host).Annotations[AcceptStoreAnnotation]; left {
		t.Errorf("the consent to %s was left", got)
	}

	if _, err := kv.Delete(t.Context(), g.store.key); err != nil {
		t.Fatal(err)
	}
	expectError(t, g.advance(t.Context()), `has store "" by now`)
	if err := g.Err(); err != nil {
		t.Errorf("no longer verified: %v", err)
	}
}

// TestFailuresAreLoggedOnce also demands that they are tried again and that the server stays ready.
func TestFailuresAreLoggedOnce(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	g := newGuard("x", newKV(t), host)
	serve(t, g)
	var mu sync.Mutex
	failure := errors.New("first cause")
	tries := 0
	host.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		tries++
		return failure != nil, nil, failure
	})
	set := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failure, tries = err, 0
	}
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true)))
	log := logger.GetSink().(ktesting.Underlier).GetBuffer()
	ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), 30*time.Second)
	defer cancel()
	end := runGuard(t, ctx, g)
	for _, err := range []error{failure, errors.New("second cause"), nil} {
		set(err)
		waitFor(ctx, t, "some tries", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return tries > 3
		})
		if err := g.Check(nil); err != nil {
			t.Errorf("not ready: %v", err)
		}
	}
	end()
	for _, text := range []string{"first cause", "second cause", "is recorded again"} {
		if got := strings.Count(log.String(), text); got != 1 {
			t.Errorf("%q was logged %d times, want once:\n%s", text, got, log)
		}
	}
}
