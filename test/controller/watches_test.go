// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// watches has the watches of a process in hand.
type watches struct {
	mu   sync.Mutex
	cuts []context.CancelFunc
	// held is open while nothing comes of the watch of CacheBackends, nil before that.
	held chan struct{}
}

func (w *watches) handle(call *call, send sender) (*http.Response, error) {
	if !strings.HasPrefix(call.what, "cache watch ") {
		return send(call.Request)
	}
	ctx, cut := context.WithCancel(call.Context())
	response, err := send(call.WithContext(ctx))
	if err != nil {
		cut()
		return nil, err
	}
	w.mu.Lock()
	w.cuts = append(w.cuts, cut)
	w.mu.Unlock()
	if call.what == "cache watch cachebackends" {
		response.Body = &heldBody{ReadCloser: response.Body, watches: w, gone: ctx.Done()}
	}
	return response, nil
}

// cut ends all watches.
func (w *watches) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cut := range w.cuts {
		cut()
	}
	w.cuts = nil
}

// hold lets nothing more come of the watch of CacheBackends.
func (w *watches) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		w.held = make(chan struct{})
	}
}

// release ends a hold.
func (w *watches) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.held)
}

func (w *watches) gate() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

// heldBody is what comes of a watch that may be held.
type heldBody struct {
	io.ReadCloser
	watches *watches
	gone    <-chan struct{}
}

func (b *heldBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if held := b.watches.gate(); held != nil {
		select {
		case <-held:
		case <-b.gone:
		}
	}
	return n, err
}

// TestStaleCache: while the cache does not show what was written, every pass decides the same again, and none of these
// decisions may be stored or told. It starts a controller of its own, and must not run beside other tests.
func TestStaleCache(t *testing.T) {
	withoutController(t)
	s, w := newSubject(t), &watches{}
	p := startProcess(t, s.namespace, w.handle)
	s.create(waitsForKVEvents)
	s.waitState(awaiting)
	s.waitEvents(v1alpha1.EventAwaitingFirstKVEvent)

	start := p.spoil(func(call *call, send sender) (*http.Response, error) {
		if call.what == statusWrite {
			w.hold()
		}
		return w.handle(call, send)
	})
	s.seesKVEvent()
	s.waitState(working)
	stored := s.backend().ResourceVersion
	for range 3 {
		before := p.count(start, statusWrite)
		s.kubectl("annotate", "deployment", s.name, "--overwrite", "example.com/touched="+time.Now().String())
		eventually(t, "there is another pass", func(context.Context) error {
			if p.count(start, statusWrite) == before {
				return errors.New("no status was written")
			}
			return nil
		})
	}
	if now := s.backend().ResourceVersion; now != stored {
		t.Errorf("the status was written again: version %s came after %s", now, stored)
	}
	w.release()
	s.endsWithEvents(v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventKVEventsObserved)
}

const statusWrite = "patch cachebackends/status"

// count is how often something was asked of the API server after the first calls.
func (w *wire) count(start int, what string) int {
	count := 0
	for _, made := range w.since(start) {
		if made == what {
			count++
		}
	}
	return count
}

// TestBrokenWatches: when the watches break and cannot be taken up again, nothing is written; what happens meanwhile is
// made good when they are back. It starts controllers of its own, and must not run beside other tests.
func TestBrokenWatches(t *testing.T) {
	withoutController(t)
	for _, tt := range []struct {
		name  string
		spoil handler
	}{
		{name: "404 of the whole group", spoil: answers(404, metav1.StatusReasonNotFound, 0)},
		{name: "410", spoil: answers(410, metav1.StatusReasonExpired, 0)},
		{name: "429", spoil: answers(429, metav1.StatusReasonTooManyRequests, 1)},
		{name: "500", spoil: answers(500, metav1.StatusReasonInternalError, 0)},
		{name: "503", spoil: answers(503, metav1.StatusReasonServiceUnavailable, 0)},
		{name: "reset connections", spoil: resets},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, w := newSubject(t), &watches{}
			p := startProcess(t, s.namespace, w.handle)
			s.create(autoscaled(1, 2))
			s.waitBackendReady()
			want, err := s.snapshot(t.Context())
			must(t, err)
			before := s.uids()

			f := &faults{spoil: tt.spoil, on: isCached, done: sets.New[string]()}
			start := p.spoil(func(call *call, send sender) (*http.Response, error) {
				return f.handle(call, func(*http.Request) (*http.Response, error) { return w.handle(call, send) })
			})
			w.cut()
			eventually(t, "all watches are refused", func(context.Context) error {
				for _, resource := range []string{"cachebackends", "deployments", "statefulsets", "services", "horizontalpodautoscalers"} {
					if !slices.Contains(f.spoilt(), "cache watch "+resource) {
						return fmt.Errorf("only %v are", f.spoilt())
					}
				}
				return nil
			})
			for _, what := range p.since(start) {
				if isWrite(what) {
					t.Errorf("without watches there was a %s", what)
				}
			}
			s.kubectl("delete", "service", s.name)
			s.waitSnapshot(want)
			after := s.uids()
			if after["Service"] == before["Service"] {
				t.Error("the Service is still there")
			}
			delete(before, "Service")
			for kind, uid := range before {
				if after[kind] != uid {
					t.Errorf("the %s was replaced", kind)
				}
			}
			p.expectNone(t, start, "delete ")

			// The same for one that starts.
			p.stop()
			f = &faults{spoil: tt.spoil, on: isCached, done: sets.New[string]()}
			next := startProcess(t, s.namespace, f.handle)
			s.edit(failOpenIs(false))
			s.waitBackendReady()
			next.expectNone(t, 0, "delete ", "create deployments", "create services", "create horizontalpodautoscalers")
		})
	}
}

// expectNone demands that no call after the first ones begins with any of these words.
func (w *wire) expectNone(t *testing.T, start int, prefixes ...string) {
	t.Helper()
	for _, made := range w.since(start) {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(made, prefix) }) {
			t.Errorf("there was a %s", made)
		}
	}
}

// TestBackOff: what fails for good is tried more and more seldom. It starts controllers of its own, and must not run
// beside other tests.
func TestBackOff(t *testing.T) {
	withoutController(t)
	for name, on := range map[string]func(string) bool{
		"writes": ofWrites, "all but the cache": ofPasses,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			var mu sync.Mutex
			var tried []time.Time
			first := "" // The first call of a pass that fails.
			refuse := answers(503, metav1.StatusReasonServiceUnavailable, 0)
			p := startProcess(t, s.namespace, func(call *call, send sender) (*http.Response, error) {
				if !on(call.what) {
					return send(call.Request)
				}
				mu.Lock()
				defer mu.Unlock()
				if first == "" {
					first = call.what
				}
				if call.what == first {
					tried = append(tried, time.Now())
				}
				return refuse(call, send)
			})
			s.create()
			const tries = 6
			eventually(t, "it was tried some times", func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				if len(tried) < tries {
					return fmt.Errorf("%s %d times", first, len(tried))
				}
				return nil
			})
			// The waits double from a tenth of a second. One try may come sooner, since an object was seen in between.
			mu.Lock()
			if took := tried[tries-1].Sub(tried[0]); took < 1500*time.Millisecond {
				t.Errorf("%s was tried %d times in %s", first, tries, took)
			}
			mu.Unlock()
			p.spoil(pass)
			s.waitBackendReady()
			s.waitObjects("Deployment", "Service")
		})
	}
}
