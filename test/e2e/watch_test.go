// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/informers/externalversions"
)

func startWatch(t *testing.T, namespace string, options metav1.ListOptions) watch.Interface {
	t.Helper()
	watcher, err := backendsIn(namespace).Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	return watcher
}

// next returns the next event of a watch.
func next(t *testing.T, watcher watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, ok := <-watcher.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return event
	case <-time.After(patience):
		t.Fatal("no event comes")
	}
	panic("unreachable")
}

// expectEvents compares the next events, written as type and name, and returns the last object.
func expectEvents(t *testing.T, watcher watch.Interface, want ...string) *v1alpha1.CacheBackend {
	t.Helper()
	var last *v1alpha1.CacheBackend
	for _, text := range want {
		event := next(t, watcher)
		backend, ok := event.Object.(*v1alpha1.CacheBackend)
		if !ok {
			t.Fatalf("got %s %+v, want %s", event.Type, event.Object, text)
		}
		if got := string(event.Type) + " " + backend.Name; got != text {
			t.Fatalf("got event %q, want %q", got, text)
		}
		last = backend
	}
	return last
}

func patchBackend(t *testing.T, namespace, name, patch string) *v1alpha1.CacheBackend {
	t.Helper()
	backend, err := backendsIn(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

// TestWatchResumes checks that a client which was away gets every event since the version that it knows, once.
func TestWatchResumes(t *testing.T) {
	t.Parallel()
	history.RLock()
	defer history.RUnlock()
	namespace := newNamespace(t)
	version := list(t, namespace, metav1.ListOptions{}).ResourceVersion
	first := startWatch(t, namespace, metav1.ListOptions{ResourceVersion: version})
	created := createBackend(t, namespace, hostOnly("a"))
	patchBackend(t, namespace, "a", `{"spec":{"replicas":2}}`)
	if err := backendsIn(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted := expectEvents(t, first, "ADDED a", "MODIFIED a", "DELETED a")
	if *deleted.Spec.Replicas != 2 || deleted.ResourceVersion == created.ResourceVersion {
		t.Errorf("the deleted object is %+v", deleted)
	}
	first.Stop()

	expectEvents(t, startWatch(t, namespace, metav1.ListOptions{ResourceVersion: version}), "ADDED a", "MODIFIED a", "DELETED a")
	expectEvents(t, startWatch(t, namespace, metav1.ListOptions{ResourceVersion: created.ResourceVersion}), "MODIFIED a", "DELETED a")
}

// TestWatchSelectors checks that an object which begins or ceases to match comes as one that is added or deleted.
func TestWatchSelectors(t *testing.T) {
	t.Parallel()
	history.RLock()
	defer history.RUnlock()
	namespace := newNamespace(t)
	version := list(t, namespace, metav1.ListOptions{}).ResourceVersion
	byLabel := startWatch(t, namespace, metav1.ListOptions{ResourceVersion: version, LabelSelector: "team=kv"})
	byName := startWatch(t, namespace, metav1.ListOptions{ResourceVersion: version, FieldSelector: "metadata.name=b"})
	createBackend(t, namespace, hostOnly("a"))
	patchBackend(t, namespace, "a", `{"metadata":{"labels":{"team":"kv"}}}`)
	patchBackend(t, namespace, "a", `{"metadata":{"labels":{"team":null}}}`)
	createBackend(t, namespace, hostOnly("b"))
	expectEvents(t, byLabel, "ADDED a", "DELETED a")
	expectEvents(t, byName, "ADDED b")
}

// TestWatchList checks the stream that informers begin with: what is there, a bookmark that says so, and then the news.
func TestWatchList(t *testing.T) {
	t.Parallel()
	history.RLock()
	defer history.RUnlock()
	namespace := newNamespace(t)
	createNumbered(t, namespace, 3)
	watcher := startWatch(t, namespace, metav1.ListOptions{
		SendInitialEvents:    new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	})
	expectEvents(t, watcher, "ADDED b-0", "ADDED b-1", "ADDED b-2")
	bookmark := next(t, watcher)
	backend, ok := bookmark.Object.(*v1alpha1.CacheBackend)
	if !ok || bookmark.Type != watch.Bookmark || backend.Annotations[metav1.InitialEventsAnnotationKey] != "true" || backend.ResourceVersion == "" {
		t.Fatalf("got %s %+v, want the bookmark at the end of the initial events", bookmark.Type, bookmark.Object)
	}
	patchBackend(t, namespace, "b-1", `{"spec":{"replicas":2}}`)
	expectEvents(t, watcher, "MODIFIED b-1")
	// One can go on from the bookmark.
	expectEvents(t, startWatch(t, namespace, metav1.ListOptions{ResourceVersion: backend.ResourceVersion}), "MODIFIED b-1")
}

// TestWatchTooOld checks that a client which was away for too long is told to list again.
func TestWatchTooOld(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, hostOnly("a"))
	compact(t)
	watcher := startWatch(t, namespace, metav1.ListOptions{ResourceVersion: "1"})
	event := next(t, watcher)
	status, ok := event.Object.(*metav1.Status)
	if !ok || event.Type != watch.Error || status.Code != http.StatusGone || status.Reason != metav1.StatusReasonExpired {
		t.Errorf("got %s %+v, want 410 Expired", event.Type, event.Object)
	}
}

// TestInformer checks the generated informer and lister, which programs rely on instead of requests.
func TestInformer(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createNumbered(t, namespace, 2)
	ctx, cancel := context.WithCancel(t.Context())
	factory := externalversions.NewSharedInformerFactoryWithOptions(env.inference, 0, externalversions.WithNamespace(namespace))
	defer factory.Shutdown()
	defer cancel()
	informer := factory.Inferencecache().V1alpha1().CacheBackends()
	events := make(chan string, 10)
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				events <- "add " + obj.(*v1alpha1.CacheBackend).Name
			}
		},
		UpdateFunc: func(_, obj any) { events <- "update " + obj.(*v1alpha1.CacheBackend).Name },
		DeleteFunc: func(obj any) { events <- "delete " + obj.(*v1alpha1.CacheBackend).Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("the informer of %s does not sync", kind)
		}
	}
	found, err := informer.Lister().CacheBackends(namespace).List(labels.Everything())
	if err != nil || len(found) != 2 {
		t.Errorf("lister: got %d backends, %v", len(found), err)
	}

	createBackend(t, namespace, hostOnly("c"))
	patchBackend(t, namespace, "c", `{"spec":{"replicas":2}}`)
	if err := backendsIn(namespace).Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 3 {
		select {
		case event := <-events:
			got = append(got, event)
		case <-time.After(patience):
			t.Fatalf("got only %q", got)
		}
	}
	if want := []string{"add c", "update c", "delete c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
