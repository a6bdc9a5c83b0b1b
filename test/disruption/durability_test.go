// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	clientset "inferencecache.io/inferencecache/pkg/generated/clientset/versioned/typed/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/informers/externalversions"
	listers "inferencecache.io/inferencecache/pkg/generated/listers/inferencecache/v1alpha1"
)

const (
	writers = 4
	// minWrites and minKills are what the short form of the test does; SOAK makes it go on for a time.
	minWrites = 200
	minKills  = 4
	// writesPerObject is how often an object is written before a writer turns to the next.
	writesPerObject = 5

	writeAnnotation = "disruption-test/write"
)

// TestKillWhileWriting asserts what a store owes: while the server is killed and started again and again, no write that
// was acknowledged is lost, none that failed is half done, versions never go back, and a client that watches all the time
// ends with what a fresh list shows.
func TestKillWhileWriting(t *testing.T) {
	installed(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("Seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	namespace := newNamespace(t)
	follower := follow(t, namespace)

	h := &history{client: ours(t).InferencecacheV1alpha1().CacheBackends(namespace), namespace: namespace}
	ctx, finish := context.WithCancel(t.Context())
	defer finish()
	var work sync.WaitGroup
	all := make([]map[string]*written, writers)
	for i := range writers {
		all[i] = map[string]*written{}
		work.Go(func() { h.write(ctx, t, fmt.Sprintf("w%d", i), all[i]) })
	}
	kills := killRepeatedly(t, h, random)
	waitServing(t)
	finish()
	work.Wait()
	t.Logf("%d acknowledged writes, %d failed ones, %d kills", h.acknowledged.Load(), h.failed.Load(), kills)

	objects := map[string]*written{}
	for _, some := range all {
		maps.Copy(objects, some)
	}
	expectAll(t, h, objects)
	follower.expectEqual(t, h)
}

// killRepeatedly kills and restarts the server at random moments between writes until there was enough of both.
func killRepeatedly(t *testing.T, h *history, random *rand.Rand) (kills int) {
	t.Helper()
	end := time.Now()
	if soak := os.Getenv("SOAK"); soak != "" {
		duration, err := time.ParseDuration(soak)
		if err != nil {
			t.Fatalf("SOAK is %q: %v", soak, err)
		}
		end = end.Add(duration)
	}
	for ; kills < minKills || time.Now().Before(end); kills++ {
		h.waitWrites(t, h.acknowledged.Load()+1+random.Int64N(2*minWrites/minKills))
		// The moment after an acknowledgement is not the only one to be killed at.
		select {
		case <-time.After(time.Duration(random.Int64N(int64(20 * time.Millisecond)))):
		case <-t.Context().Done():
		}
		kill(t)
		start(t)
		waitAvailable(t, apiregistrationv1.ConditionTrue)
	}
	h.waitWrites(t, max(minWrites, h.acknowledged.Load()+writers))
	return kills
}

// written is what a writer knows of an object.
type written struct {
	// acknowledged is the object as the server last confirmed it. It was deleted if deleted is true.
	acknowledged *v1alpha1.CacheBackend
	deleted      bool
	// attempted is the number of the last write, confirmed or not.
	attempted int
}

// history is what all writers share.
type history struct {
	client       clientset.CacheBackendInterface
	namespace    string
	acknowledged atomic.Int64
	failed       atomic.Int64

	mu     sync.Mutex
	newest int64 // of the acknowledged versions
}

func (h *history) waitWrites(t *testing.T, want int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d writes are acknowledged", want), func(context.Context) error {
		if got := h.acknowledged.Load(); got < want {
			return fmt.Errorf("only %d", got)
		}
		return nil
	})
}

// write creates objects, updates each several times and deletes every third, until the context ends.
func (h *history) write(ctx context.Context, t *testing.T, prefix string, objects map[string]*written) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%s-%d", prefix, n)
		w := &written{}
		objects[name] = w
		for w.attempted < writesPerObject && ctx.Err() == nil {
			h.writeOnce(t, name, w)
		}
		if n%3 == 2 && ctx.Err() == nil {
			h.deleteOnce(t, name, w)
		}
	}
}

// writeOnce makes the next write to an object, and goes on until it knows what has become of it.
func (h *history) writeOnce(t *testing.T, name string, w *written) {
	w.attempted++
	next := content(newBackend(h.namespace, name), w.attempted)
	if w.acknowledged != nil {
		next = content(w.acknowledged.DeepCopy(), w.attempted)
	}
	floor := h.newestVersion()
	var got *v1alpha1.CacheBackend
	var err error
	if w.acknowledged == nil {
		got, err = h.client.Create(t.Context(), next, metav1.CreateOptions{})
	} else {
		got, err = h.client.Update(t.Context(), next, metav1.UpdateOptions{})
	}
	if err == nil {
		h.acknowledge(t, got, floor)
	} else {
		h.failed.Add(1)
		got = h.reread(t, name, w, err)
	}
	if got != nil {
		w.acknowledged = got
	} else {
		w.attempted = 0 // it was never created
	}
}

// reread finds out whether a write that failed was done: all of it or nothing of it.
func (h *history) reread(t *testing.T, name string, w *written, cause error) *v1alpha1.CacheBackend {
	got, err := h.persist(t, name)
	if w.acknowledged == nil && apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Errorf("%s is lost after a failed write (%v): %v", name, cause, err)
		return w.acknowledged
	}
	unchanged := w.acknowledged != nil && cmp.Equal(got, w.acknowledged)
	done := numberOf(got) == w.attempted && (w.acknowledged == nil || got.UID == w.acknowledged.UID && versionOf(got) > versionOf(w.acknowledged))
	if !unchanged && !done {
		t.Errorf("%s is neither as before write %d nor as after it (%v): %+v", name, w.attempted, cause, got)
	}
	return got
}

// persist reads an object until the server answers.
func (h *history) persist(t *testing.T, name string) (got *v1alpha1.CacheBackend, err error) {
	pollErr := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		got, err = h.client.Get(ctx, name, metav1.GetOptions{})
		return err == nil || apierrors.IsNotFound(err), nil
	})
	if pollErr != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return got, err
}

// deleteOnce deletes an object for good.
func (h *history) deleteOnce(t *testing.T, name string, w *written) {
	err := h.client.Delete(t.Context(), name, metav1.DeleteOptions{})
	if err == nil {
		h.acknowledged.Add(1)
		w.deleted = true
		return
	}
	h.failed.Add(1)
	_, err = h.persist(t, name)
	w.deleted = apierrors.IsNotFound(err)
}

// acknowledge takes note of a confirmed write. Its version must be above all that were confirmed before it began.
func (h *history) acknowledge(t *testing.T, got *v1alpha1.CacheBackend, floor int64) {
	h.acknowledged.Add(1)
	version := versionOf(got)
	if version <= floor {
		t.Errorf("%s was written at version %d after version %d had been confirmed", got.Name, version, floor)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = max(h.newest, version)
}

func (h *history) newestVersion() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest
}

// content marks a backend as written for the nth time, in two places, so that half a write would show.
func content(backend *v1alpha1.CacheBackend, n int) *v1alpha1.CacheBackend {
	backend.Annotations = map[string]string{writeAnnotation: strconv.Itoa(n)}
	backend.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: map[string]string{"write": strconv.Itoa(n)}}
	return backend
}

// numberOf is the number of the write that a backend shows, -1 if its places disagree.
func numberOf(backend *v1alpha1.CacheBackend) int {
	n, err := strconv.Atoi(backend.Annotations[writeAnnotation])
	if err != nil || backend.Spec.EngineSelector == nil || backend.Spec.EngineSelector.MatchLabels["write"] != strconv.Itoa(n) {
		return -1
	}
	return n
}

func versionOf(object metav1.Object) int64 {
	version, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return -1
	}
	return version
}

// expectAll compares what is in the store with what was acknowledged, to the last byte and both ways.
func expectAll(t *testing.T, h *history, objects map[string]*written) {
	t.Helper()
	list, err := h.client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := byName(list.Items)
	for name, w := range objects {
		got, found := stored[name]
		switch {
		case w.deleted && found:
			t.Errorf("%s is back after its deletion was acknowledged", name)
		case w.acknowledged != nil && !w.deleted && !found:
			t.Errorf("%s is lost; it was acknowledged at version %s", name, w.acknowledged.ResourceVersion)
		case w.acknowledged != nil && !w.deleted:
			if diff := cmp.Diff(w.acknowledged, got); diff != "" {
				t.Errorf("%s is not as it was acknowledged (-want +got):\n%s", name, diff)
			}
		}
	}
	for name := range stored {
		if w := objects[name]; w == nil || w.acknowledged == nil {
			t.Errorf("%s is in the store, but nobody wrote it", name)
		}
	}
	if listed := versionOf(&metav1.ObjectMeta{ResourceVersion: list.ResourceVersion}); listed < h.newestVersion() {
		t.Errorf("the list is at version %d, but version %d has been acknowledged", listed, h.newestVersion())
	}
}

func byName(backends []v1alpha1.CacheBackend) map[string]*v1alpha1.CacheBackend {
	named := map[string]*v1alpha1.CacheBackend{}
	for i := range backends {
		named[backends[i].Name] = &backends[i]
	}
	return named
}

// follower is an informer that runs through all kills.
type follower struct {
	lister listers.CacheBackendNamespaceLister
}

// follow starts an informer and checks all that it sees: nothing half written, and no version that goes back.
func follow(t *testing.T, namespace string) follower {
	t.Helper()
	factory := externalversions.NewSharedInformerFactoryWithOptions(ours(t), 0, externalversions.WithNamespace(namespace))
	backends := factory.Inferencecache().V1alpha1().CacheBackends()
	whole := func(object any) {
		if backend, ok := object.(*v1alpha1.CacheBackend); ok && numberOf(backend) < 0 {
			t.Errorf("a watcher sees half a write: %+v", backend)
		}
	}
	_, err := backends.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: whole,
		UpdateFunc: func(old, updated any) {
			whole(updated)
			before, after := old.(*v1alpha1.CacheBackend), updated.(*v1alpha1.CacheBackend)
			if versionOf(after) < versionOf(before) || after.UID == before.UID && numberOf(after) < numberOf(before) {
				t.Errorf("a watcher sees %s go back from version %s to %s", after.Name, before.ResourceVersion, after.ResourceVersion)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), backends.Informer().HasSynced) {
		t.Fatal("the informer does not start")
	}
	return follower{lister: backends.Lister().CacheBackends(namespace)}
}

// expectEqual waits until the informer has what a fresh list has. Nobody writes any more.
func (f follower) expectEqual(t *testing.T, h *history) {
	t.Helper()
	list, err := h.client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := byName(list.Items)
	eventually(t, "the informer has caught up", func(context.Context) error {
		cached, err := f.lister.List(labels.Everything())
		if err != nil {
			return err
		}
		got := map[string]*v1alpha1.CacheBackend{}
		for _, backend := range cached {
			got[backend.Name] = backend
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("the informer differs (-list +informer):\n%s", diff)
		}
		return nil
	})
}
