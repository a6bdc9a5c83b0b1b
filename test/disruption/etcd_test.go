// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// useEtcd moves the API server to an etcd of its own.
func useEtcd(t *testing.T) *etcdServer {
	t.Helper()
	e := startEtcd(t)
	t.Cleanup(func() { stop(t) }) // before etcd
	restart(t, e.flags...)
	accept(t, waitRefused(t))
	waitServing(t)
	return e
}

// TestReplicas asserts that two API servers on one external etcd are one API: what is written through one is seen
// through the other, by reads at once and by watches that were open before.
func TestReplicas(t *testing.T) {
	installed(t)
	e := useEtcd(t)
	second := startReplica(t, e.flags...)
	namespace := newNamespace(t)
	for _, tt := range []struct {
		name                string
		writePort, readPort int
	}{
		{"first-to-second", host.APIServer.Port, second.APIServer.Port},
		{"second-to-first", second.APIServer.Port, host.APIServer.Port},
	} {
		writer := directClient(t, tt.writePort).InferencecacheV1alpha1().CacheBackends(namespace)
		reader := directClient(t, tt.readPort).InferencecacheV1alpha1().CacheBackends(namespace)
		list, err := reader.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watcher, err := reader.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()

		written, err := writer.Create(t.Context(), newBackend(namespace, tt.name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		read, err := reader.Get(t.Context(), tt.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen := nextBackend(t, watcher)
		for how, got := range map[string]*v1alpha1.CacheBackend{"get": read, "watch": seen} {
			if got.UID != written.UID || got.ResourceVersion != written.ResourceVersion {
				t.Errorf("%s: %s shows %s at %s, want %s at %s", tt.name, how, got.UID, got.ResourceVersion, written.UID, written.ResourceVersion)
			}
		}
	}
}

func nextBackend(t *testing.T, watcher watch.Interface) *v1alpha1.CacheBackend {
	t.Helper()
	select {
	case event := <-watcher.ResultChan():
		backend, ok := event.Object.(*v1alpha1.CacheBackend)
		if !ok {
			t.Fatalf("the watch sends %s %v", event.Type, event.Object)
		}
		return backend
	case <-time.After(patience):
		t.Fatal("the watch sends nothing")
		return nil
	}
}

// TestEtcdOutage asserts what happens while an external etcd is away: reads and writes fail with an error of the server's
// and within the time of a request, the server is not ready, and it is not restarted for it. When etcd is back, the same
// process serves the same objects.
func TestEtcdOutage(t *testing.T) {
	installed(t)
	e := useEtcd(t)
	namespace := newNamespace(t)
	before := createBackend(t, namespace, "kept")
	pid := host.APIServerPID()

	e.stop(t)
	server := direct(t)
	expectFailing(t, aggregated(t), namespace)
	eventually(t, "the API server is not ready", func(ctx context.Context) error {
		if host.APIServerReady(ctx) == nil {
			return fmt.Errorf("ready without etcd")
		}
		return nil
	})
	if live := server.ask(t, http.MethodGet, "/livez", ""); live.code != http.StatusOK {
		t.Errorf("livez answers %d, but a restart does not help:\n%s", live.code, live.body)
	}

	e.start(t)
	waitServing(t)
	if got := host.APIServerPID(); got != pid {
		t.Errorf("the server has pid %d, it was %d", got, pid)
	}
	after, err := ours(t).InferencecacheV1alpha1().CacheBackends(namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the backend is %s at %s, it was %s at %s", after.UID, after.ResourceVersion, before.UID, before.ResourceVersion)
	}
	createBackend(t, namespace, "written-afterwards")
}

// expectFailing demands an answer that blames the server, for reads and for writes. They wait for etcd side by side, and
// give it less time than the minute that is usual.
func expectFailing(t *testing.T, server endpoint, namespace string) {
	t.Helper()
	collection := "/apis/" + groupVersion + "/namespaces/" + namespace + "/cachebackends"
	body := `{"apiVersion":"` + groupVersion + `","kind":"CacheBackend","metadata":{"name":"unwritten"},"spec":{"runtime":"VLLM"}}`
	var requests sync.WaitGroup
	for _, r := range []struct{ method, path, body string }{
		{http.MethodGet, collection + "/kept", ""},
		{http.MethodGet, collection, ""},
		{http.MethodPost, collection, body},
		{http.MethodDelete, collection + "/kept", ""},
	} {
		requests.Go(func() {
			begun := time.Now()
			got, err := server.do(t.Context(), r.method, r.path+"?timeout=3s", r.body)
			if err != nil || got.code < 500 {
				t.Errorf("%s %s without etcd: got %d %s (error %v), want an error of the server", r.method, r.path, got.code, got.body, err)
			}
			t.Logf("%5.1fs %s %s: %d %s", time.Since(begun).Seconds(), r.method, r.path, got.code, got.message())
		})
	}
	requests.Wait()
}
