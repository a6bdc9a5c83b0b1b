// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

const serverURL = "http://cache.test/snapshot"

var errDown = errors.New("connection refused")

// script is a cache server that does as it is told. Tests run it on a clock of their own,
// which a connection could not follow.
type script struct {
	mu    sync.Mutex
	total int64
	err   error
	// took is how long a call takes, for ever if it is negative.
	took  time.Duration
	calls []time.Time
}

func (s *script) Snapshot(ctx context.Context) (*cacheserver.Snapshot, error) {
	s.mu.Lock()
	s.calls = append(s.calls, time.Now())
	took := s.took
	s.mu.Unlock()
	if took < 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return &cacheserver.Snapshot{TotalPrefixes: s.total}, nil
}

// say sets what the server says from now on.
func (s *script) say(total int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.err = total, err
}

func (s *script) takes(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = took
}

// called returns when calls have begun.
func (s *script) called() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.calls...)
}

// skewed is a clock that is wrong by an offset.
type skewed struct {
	clock.RealClock
	offset time.Duration
}

func (c skewed) Now() time.Time { return c.RealClock.Now().Add(c.offset) }

// inBubble runs a test on a clock that only moves while everything waits, with an API server
// on a cache server.
func inBubble(t *testing.T, test func(t *testing.T, rest *REST, server *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &script{}
		rest := NewREST(server, serverURL, clock.RealClock{})
		defer rest.Destroy()
		test(t, rest, server)
	})
}

// warnings are those that a reader gets.
type warnings struct{ texts []string }

func (w *warnings) AddWarning(_, text string) { w.texts = append(w.texts, text) }

// get reads the object, and returns the warnings too.
func get(t *testing.T, rest *REST) (*inferencecache.CacheIndex, []string) {
	t.Helper()
	var w warnings
	object, err := rest.Get(warning.WithWarningRecorder(t.Context(), &w), Name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.(*inferencecache.CacheIndex), w.texts
}

func list(t *testing.T, rest *REST) *inferencecache.CacheIndexList {
	t.Helper()
	object, err := rest.List(t.Context(), &metainternalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.(*inferencecache.CacheIndexList)
}

// total is the number of prefixes that the object shows, -1 when it shows none.
func total(index *inferencecache.CacheIndex) int64 {
	if index.Status.Prefixes == nil {
		return -1
	}
	return index.Status.Prefixes.Summary.Total
}

func startWatch(t *testing.T, rest *REST, options metainternalversion.ListOptions) watch.Interface {
	t.Helper()
	watcher, err := rest.Watch(t.Context(), &options)
	if err != nil {
		t.Fatal(err)
	}
	return watcher
}

// received is an event as a client sees it.
type received struct {
	kind    watch.EventType
	total   int64
	version version
	end     bool // of the initial events
}

// next returns the next event, and false when none comes before everything waits.
func next(t *testing.T, watcher watch.Interface) (received, bool) {
	t.Helper()
	synctest.Wait()
	select {
	case event, ok := <-watcher.ResultChan():
		if !ok {
			return received{}, false
		}
		return decode(t, event), true
	default:
		return received{}, false
	}
}

func decode(t *testing.T, event watch.Event) received {
	t.Helper()
	object := event.Object
	if shared, ok := object.(*sharedObject); ok {
		object = shared.GetObject()
	}
	index := object.(*inferencecache.CacheIndex)
	v, err := parseVersion(index.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return received{
		kind:    event.Type,
		total:   total(index),
		version: v,
		end:     index.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	}
}

// expect demands an event and returns its version.
func expect(t *testing.T, watcher watch.Interface, kind watch.EventType, total int64) version {
	t.Helper()
	got, ok := next(t, watcher)
	if !ok {
		t.Fatalf("no event comes, want %s of %d", kind, total)
	}
	if got.kind != kind || got.total != total {
		t.Fatalf("got %s of %d, want %s of %d", got.kind, got.total, kind, total)
	}
	return got.version
}

func expectNothing(t *testing.T, watcher watch.Interface) {
	t.Helper()
	if got, ok := next(t, watcher); ok {
		t.Fatalf("got %+v, want nothing", got)
	}
}
