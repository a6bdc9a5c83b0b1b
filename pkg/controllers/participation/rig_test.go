// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

var errRefused = errors.New("connection refused")

// scripted is an index that answers what the test says.
type scripted struct {
	snapshot *cacheserver.Snapshot
	err      error
}

func (s *scripted) Snapshot(context.Context) (*cacheserver.Snapshot, error) { return s.snapshot, s.err }

// rig ticks against a store in memory, which neither defaults nor validates. The cluster's
// tests do the rest; here is what goes wrong.
type rig struct {
	*testing.T
	*Poller
	index    *scripted
	registry *prometheus.Registry
	clock    *clocktesting.FakeClock
	// failList and failPatch return the error of a request, nil to let it through.
	failList  func(namespace string, list client.ObjectList) error
	failPatch func(object client.Object) error

	mutex sync.Mutex
	// lists and patches are the requests of the last tick, sorted.
	lists, patches []string
	logged         []string
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{v1alpha1.Install, corev1.AddToScheme} {
		if err := install(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{
		T: t, index: &scripted{snapshot: &cacheserver.Snapshot{}}, registry: prometheus.NewRegistry(), clock: clocktesting.NewFakeClock(start),
		failList: func(string, client.ObjectList) error { return nil }, failPatch: func(client.Object) error { return nil },
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.CacheBackend{}, &v1alpha1.CacheTenant{}).
		WithInterceptorFuncs(interceptor.Funcs{List: r.list, SubResourcePatch: r.patch}).Build()
	t2, err := newT2Metrics(r.registry)
	if err != nil {
		t.Fatal(err)
	}
	r.Poller = newPoller(r.index, 0, store, store, r.clock, t2)
	return r
}

func (r *rig) list(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	namespace := (&client.ListOptions{}).ApplyOptions(options).Namespace
	if _, ok := list.(*metav1.PartialObjectMetadataList); ok {
		r.mutex.Lock()
		r.lists = append(r.lists, namespace)
		r.mutex.Unlock()
	}
	if err := r.failList(namespace, list); err != nil {
		return err
	}
	return c.List(ctx, list, options...)
}

func (r *rig) patch(ctx context.Context, c client.Client, _ string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	r.mutex.Lock()
	r.patches = append(r.patches, object.GetNamespace()+"/"+object.GetName())
	r.mutex.Unlock()
	if err := r.failPatch(object); err != nil {
		return err
	}
	return c.Status().Patch(ctx, object, patch, options...)
}

// run ticks once.
func (r *rig) run() {
	r.Helper()
	r.lists, r.patches = nil, nil
	logger := funcr.New(func(_, line string) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.logged = append(r.logged, line)
	}, funcr.Options{})
	r.tick(logr.NewContext(r.Context(), logger))
	slices.Sort(r.lists)
	slices.Sort(r.patches)
}

// holds makes the index hold some replicas.
func (r *rig) holds(replicas ...cacheserver.Replica) {
	r.index.snapshot, r.index.err = &cacheserver.Snapshot{Replicas: replicas}, nil
}

func (r *rig) participation(namespace, name string) *v1alpha1.IndexParticipation {
	r.Helper()
	var backend v1alpha1.CacheBackend
	if err := r.client.Get(r.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &backend); err != nil {
		r.Fatal(err)
	}
	return backend.Status.IndexParticipation
}

// backend is one that selects the pods of newPod.
func backend(namespace, name string) *v1alpha1.CacheBackend {
	return new(newBackend(namespace, name, atlas))
}

func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: atlas}}
}

func replica(namespace, pod string, prefixes int64) cacheserver.Replica {
	return cacheserver.Replica{Tenant: namespace, ID: pod, PrefixCount: prefixes, LastEventAt: start}
}
