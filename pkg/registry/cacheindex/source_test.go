// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestNobodyNoCalls asserts that the cache server is left alone as long as nobody reads.
func TestNobodyNoCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		time.Sleep(time.Hour)
		if calls := len(server.called()); calls != 0 {
			t.Errorf("%d calls before anybody reads", calls)
		}
		get(t, rest)
		time.Sleep(time.Hour)
		if calls := len(server.called()); calls != 1 {
			t.Errorf("%d calls after one read", calls)
		}
	})
}

// TestPauses asserts how often the cache server is called at most, for readers and watchers
// alike, and whether it answers or not.
func TestPauses(t *testing.T) {
	t.Parallel()
	readers := func(t *testing.T, rest *REST) {
		for range 10_000 {
			get(t, rest)
			time.Sleep(10 * time.Millisecond)
		}
	}
	watchers := func(t *testing.T, rest *REST) {
		for range 3 {
			watcher := startWatch(t, rest, metainternalversion.ListOptions{})
			defer watcher.Stop()
		}
		time.Sleep(100 * time.Second)
	}
	for _, tt := range []struct {
		name string
		took time.Duration
		err  error
		// want is the time between the beginnings of two calls.
		want time.Duration
	}{
		{"fast", 0, nil, time.Second},
		{"usual", 20 * time.Millisecond, nil, 1020 * time.Millisecond},
		{"slow", 500 * time.Millisecond, nil, 5500 * time.Millisecond},
		{"down", 0, errDown, time.Second},
		{"does not answer", 5 * time.Second, errDown, 55 * time.Second},
	} {
		for who, use := range map[string]func(*testing.T, *REST){"readers": readers, "watchers": watchers} {
			t.Run(tt.name+" "+who, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, rest *REST, server *script) {
					server.takes(tt.took)
					server.say(1, tt.err)
					use(t, rest)
					calls := server.called()
					for i := 1; i < len(calls); i++ {
						gap := calls[i].Sub(calls[i-1])
						if gap < tt.want {
							t.Fatalf("call %d comes %s after the one before, want %s", i, gap, tt.want)
						}
					}
					// Readers come every 10 ms, or when the one before has lost patience.
					if least := int(100 * time.Second / (tt.want + patience + 10*time.Millisecond)); len(calls) < least {
						t.Errorf("%d calls in 100 s, want at least %d", len(calls), least)
					}
				})
			})
		}
	}
}

// TestReadersShareACall asserts that many readers at a time make one call, and all get its
// answer.
func TestReadersShareACall(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		server.takes(100 * time.Millisecond)
		server.say(7, nil)
		var readers sync.WaitGroup
		for range 100 {
			readers.Go(func() {
				if index, warnings := get(t, rest); total(index) != 7 || warnings != nil {
					t.Errorf("got %d, warnings %q", total(index), warnings)
				}
			})
		}
		readers.Wait()
		if calls := len(server.called()); calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestFreshEnough asserts that a reader in the pause gets the last answer without a warning.
func TestFreshEnough(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		server.say(1, nil)
		get(t, rest)
		server.say(2, nil)
		time.Sleep(minPause - time.Nanosecond)
		if index, warnings := get(t, rest); total(index) != 1 || warnings != nil {
			t.Errorf("in the pause: got %d, warnings %q", total(index), warnings)
		}
		time.Sleep(time.Nanosecond)
		if index, warnings := get(t, rest); total(index) != 2 || warnings != nil {
			t.Errorf("after the pause: got %d, warnings %q", total(index), warnings)
		}
	})
}

// TestWarnings follows a reader through the life of a cache server.
func TestWarnings(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		read := func(when string, wantTotal int64, want string) {
			t.Helper()
			index, warnings := get(t, rest)
			if total(index) != wantTotal {
				t.Errorf("%s: got %d, want %d", when, total(index), wantTotal)
			}
			if got := strings.Join(warnings, "; "); got != want {
				t.Errorf("%s: got warning %q, want %q", when, got, want)
			}
		}
		server.say(0, errDown)
		read("before there was any", -1, "the cache index has not been read yet: connection refused")
		read("in the pause", -1, "the cache index has not been read yet: connection refused")

		server.say(5, nil)
		time.Sleep(minPause)
		read("up", 5, "")

		server.say(6, errDown)
		time.Sleep(90 * time.Second)
		read("down", 5, "the cache index is shown as it was 1m30s ago: connection refused")
		time.Sleep(time.Second / 2)
		read("in the pause after that", 5, "the cache index is shown as it was 1m31s ago: connection refused")

		server.say(6, nil)
		time.Sleep(minPause)
		read("up again", 6, "")

		server.takes(4 * time.Second)
		time.Sleep(minPause)
		read("slow", 6, "the cache index is shown as it was 2s ago: the cache server has not answered for 1s")
		time.Sleep(time.Second)
		read("slow, a second later", 6, "the cache index is shown as it was 3s ago: the cache server has not answered for 2s")
		time.Sleep(4 * time.Second)
		read("after the slow answer", 6, "")

		server.say(6, errors.New("says:\r\n\x00"+strings.Repeat("é", 500)+"\xff"))
		time.Sleep(time.Hour)
		read("slow and down", 6, "the cache index is shown as it was 1h0m3s ago: the cache server has not answered for 1s")
		time.Sleep(5 * time.Second)
		read("down", 6, "the cache index is shown as it was 1h0m8s ago: says:   "+strings.Repeat("é", maxCause-8)+"...")
	})
}

// TestPatience asserts how long readers wait for a server that does not answer.
func TestPatience(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		server.takes(-1)
		for _, want := range []time.Duration{patience, 0, 0} {
			begun := time.Now()
			get(t, rest)
			if took := time.Since(begun); took != want {
				t.Errorf("a reader waits for %s, want %s", took, want)
			}
		}
		if calls := len(server.called()); calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestImpatientReader asserts that a reader who goes away is not waited for, and does not
// end the call that others share.
func TestImpatientReader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		server.takes(500 * time.Millisecond)
		server.say(3, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if _, err := rest.Get(ctx, Name, &metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("a reader with a deadline of 100 ms waits for %s", took)
		}
		if index, _ := get(t, rest); total(index) != 3 || len(server.called()) != 1 {
			t.Errorf("the next reader gets %d after %d calls", total(index), len(server.called()))
		}
	})
}

// TestLoopEndsWithTheLastWatcher asserts that watchers keep the view fresh between them.
func TestLoopEndsWithTheLastWatcher(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		for range 3 {
			var watchers []watch.Interface
			for range 100 {
				watchers = append(watchers, startWatch(t, rest, metainternalversion.ListOptions{}))
			}
			before := len(server.called())
			time.Sleep(10 * time.Second)
			if calls := len(server.called()) - before; calls < 9 || calls > 11 {
				t.Errorf("100 watchers make %d calls in 10 s", calls)
			}
			for _, watcher := range watchers[1:] {
				watcher.Stop()
				watcher.Stop()
			}
			before = len(server.called())
			time.Sleep(10 * time.Second)
			if calls := len(server.called()) - before; calls < 9 || calls > 11 {
				t.Errorf("the last watcher makes %d calls in 10 s", calls)
			}
			watchers[0].Stop()
			synctest.Wait()
			before = len(server.called())
			time.Sleep(time.Hour)
			if calls := len(server.called()) - before; calls != 0 {
				t.Errorf("%d calls after the last watcher has left", calls)
			}
		}
	})
}

// TestDestroy asserts that everything ends: the bubble would not, were anything left.
func TestDestroy(t *testing.T) {
	t.Parallel()
	for name, took := range map[string]time.Duration{"in the pause": 0, "in a call": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, rest *REST, server *script) {
				server.takes(took)
				read := startWatch(t, rest, metainternalversion.ListOptions{ResourceVersion: "1"})
				unread := startWatch(t, rest, metainternalversion.ListOptions{})
				time.Sleep(minPause / 2)
				if took == 0 {
					expect(t, read, watch.Modified, 0)
				}
				rest.Destroy()
				rest.Destroy()
				for name, watcher := range map[string]watch.Interface{"read": read, "unread": unread} {
					if _, open := <-watcher.ResultChan(); open {
						t.Errorf("the %s watch goes on", name)
					}
				}
				if _, err := rest.Watch(t.Context(), &metainternalversion.ListOptions{}); err == nil {
					t.Error("a watch begins after the end")
				}
				before := len(server.called())
				get(t, rest)
				time.Sleep(time.Hour)
				if len(server.called()) != before {
					t.Error("calls go on")
				}
			})
		})
	}
}
