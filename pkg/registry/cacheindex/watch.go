// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// bookmarkEvery is how often a watcher is told the version that it is at.
const bookmarkEvery = time.Minute

// watcher tells one client what becomes of the object. It looks at the store whenever the
// client is ready for an event, so a slow client skips states that others see, and costs
// nobody anything; it always gets the last one.
type watcher struct {
	store  *store
	source *source
	result chan watch.Event
	cancel context.CancelFunc

	// seen is the version that the client comes with, 0 if none.
	seen version
	// initial says that the watch begins with what there is, whatever the client has seen.
	initial bool
	// marksInitial says that the client wants to be told where that ends.
	marksInitial bool
	// newsOnly says that it begins with what comes next.
	newsOnly bool
	// selected says whether the client asks for the object at all.
	selected bool
	// bookmarks says whether the client wants to be told the version now and then.
	bookmarks bool

	// known is the state that the client knows.
	known *state
}

var _ watch.Interface = &watcher{}

// Stop ends the watch. It may be called more than once.
func (w *watcher) Stop() { w.cancel() }

// ResultChan returns the events. It is closed when the watch has ended.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// start begins to send events until the context or the source ends. It does not wait for
// anything: the first event does, for the cache server. It returns false if the source has
// ended already.
func (w *watcher) start(ctx context.Context) bool {
	ctx, w.cancel = context.WithCancel(ctx)
	stop := context.AfterFunc(w.source.ctx, w.cancel)
	return w.source.follow(func() {
		defer close(w.result)
		defer stop()
		w.run(ctx)
	})
}

func (w *watcher) run(ctx context.Context) {
	w.source.refresh(ctx)
	if !w.begin(ctx) {
		return
	}
	var tick <-chan time.Time
	if w.bookmarks {
		ticker := w.source.clock.NewTicker(bookmarkEvery)
		defer ticker.Stop()
		tick = ticker.C()
	}
	for {
		state, changed := w.store.present()
		if w.selected && state.change != w.known.change {
			if !w.deliver(ctx, watch.Modified, news) {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-tick:
			if !w.send(ctx, bookmark(state, nil)) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// begin sends the events that a watch starts with, and says whether the watch goes on.
func (w *watcher) begin(ctx context.Context) bool {
	w.known = w.store.notOlderThan(w.seen)
	switch {
	case w.initial:
		if w.selected && !w.deliver(ctx, watch.Added, copied) {
			return false
		}
		return !w.marksInitial || !w.bookmarks || w.send(ctx, bookmark(w.known, map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
	case w.newsOnly || w.known.version == w.seen || !w.selected:
		return true
	default:
		return w.deliver(ctx, watch.Modified, copied)
	}
}

// deliver sends the present state, or a newer one if the client takes its time, in the form
// that it is asked for.
func (w *watcher) deliver(ctx context.Context, eventType watch.EventType, form func(*state) runtime.Object) bool {
	for {
		state, changed := w.store.present()
		select {
		case w.result <- watch.Event{Type: eventType, Object: form(state)}:
			w.known = state
			return true
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (w *watcher) send(ctx context.Context, event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-ctx.Done():
		return false
	}
}

// news is the form of a state that is new for everybody.
func news(s *state) runtime.Object { return s.news }

// copied is the form of a state that may be an old one.
func copied(s *state) runtime.Object { return s.object() }

func bookmark(s *state, annotations map[string]string) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &inferencecache.CacheIndex{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: s.version.String(), Annotations: annotations},
	}}
}
