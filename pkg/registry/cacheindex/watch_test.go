// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// TestWatchBegins asserts what a watch begins with, for every way to ask for one.
func TestWatchBegins(t *testing.T) {
	t.Parallel()
	const added, modified, end = "ADDED 1", "MODIFIED 1", "BOOKMARK -1 end"
	fixed := func(text string) func(version) string { return func(version) string { return text } }
	present := func(p version) string { return p.String() }
	older := func(p version) string { return (p - 1).String() }
	newer := func(p version) string { return (p + version(30*time.Second)).String() }
	other := fields.OneTermEqualSelector("metadata.name", "other")
	for _, tt := range []struct {
		name    string
		asked   func(present version) string
		options metainternalversion.ListOptions
		want    []string
	}{
		{"no version", fixed(""), metainternalversion.ListOptions{}, []string{added}},
		{"any version", fixed("0"), metainternalversion.ListOptions{}, []string{added}},
		{"the present version", present, metainternalversion.ListOptions{}, nil},
		{"an older version", older, metainternalversion.ListOptions{}, []string{modified}},
		{"a much older version", fixed("12"), metainternalversion.ListOptions{}, []string{modified}},
		{"a newer version", newer, metainternalversion.ListOptions{}, []string{modified}},
		{"bookmarks alone", fixed(""), metainternalversion.ListOptions{AllowWatchBookmarks: true}, []string{added}},
		{"initial events", fixed(""), metainternalversion.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true}, []string{added, end}},
		{"initial events from any", fixed("0"), metainternalversion.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true}, []string{added, end}},
		{"initial events from the present", present, metainternalversion.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true}, []string{added, end}},
		{"initial events from a newer", newer, metainternalversion.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true}, []string{added, end}},
		{"initial events without bookmarks", fixed(""), metainternalversion.ListOptions{SendInitialEvents: new(true)}, []string{added}},
		{"initial events of another name", fixed(""), metainternalversion.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true, FieldSelector: other}, []string{end}},
		{"no initial events", fixed(""), metainternalversion.ListOptions{SendInitialEvents: new(false), AllowWatchBookmarks: true}, nil},
		{"no initial events from any", fixed("0"), metainternalversion.ListOptions{SendInitialEvents: new(false)}, nil},
		{"no initial events from an older", older, metainternalversion.ListOptions{SendInitialEvents: new(false)}, []string{modified}},
		{"another name", older, metainternalversion.ListOptions{FieldSelector: other}, nil},
		{"our name", older, metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", Name)}, []string{modified}},
		{"a label", older, metainternalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"a": "b"})}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, rest *REST, server *script) {
				server.say(1, nil)
				get(t, rest)
				before, _ := rest.store.present()
				options := tt.options
				options.ResourceVersion = tt.asked(before.version)
				watcher := startWatch(t, rest, options)
				defer watcher.Stop()

				floor, _ := parseVersion(options.ResourceVersion)
				var got []string
				for {
					event, ok := next(t, watcher)
					if !ok {
						break
					}
					text := fmt.Sprintf("%s %d", event.kind, event.total)
					if event.end {
						text += " end"
					}
					got = append(got, text)
					if event.version < floor || event.kind == watch.Modified && event.version == floor {
						t.Errorf("asked from %d, got version %d", floor, event.version)
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}

				// In any case the next news come, to those who ask for the object.
				server.say(2, nil)
				time.Sleep(minPause)
				if selected(&options) {
					expect(t, watcher, watch.Modified, 2)
				}
				expectNothing(t, watcher)
			})
		})
	}
}

// TestWatchRefusals asserts which versions no watch can begin with.
func TestWatchRefusals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, _ *script) {
		present, _ := rest.store.present()
		for version, is := range map[string]func(error) bool{
			(present.version + version(maxAhead) + maxStep).String(): apierrors.IsResourceExpired,
			"18446744073709551615": apierrors.IsResourceExpired,
			"x":                    apierrors.IsBadRequest,
		} {
			if _, err := rest.Watch(t.Context(), &metainternalversion.ListOptions{ResourceVersion: version}); !is(err) {
				t.Errorf("from %s: got %v", version, err)
			}
		}
	})
}

// TestWatchNews asserts that watchers are told of changes, and of nothing else.
func TestWatchNews(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		watcher := startWatch(t, rest, metainternalversion.ListOptions{})
		defer watcher.Stop()
		last := expect(t, watcher, watch.Added, 0)
		for total := range int64(5) {
			server.say(total, nil)
			time.Sleep(minPause)
			if total == 0 {
				expectNothing(t, watcher) // as it was
				continue
			}
			v := expect(t, watcher, watch.Modified, total)
			if v <= last {
				t.Errorf("version %d after %d", v, last)
			}
			last = v
		}
		server.say(9, errDown)
		time.Sleep(time.Minute)
		expectNothing(t, watcher)

		// Somebody else comes with a version that is newer, which is no news for this one.
		options := metainternalversion.ListOptions{ResourceVersion: (last + version(time.Minute/2)).String()}
		other := startWatch(t, rest, options)
		defer other.Stop()
		expect(t, other, watch.Modified, 4)
		expectNothing(t, watcher)
	})
}

// TestWatchBeginsFresh asserts that a watch waits for a cache server that answers in time, and
// does not begin with what was known long ago.
func TestWatchBeginsFresh(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		server.say(1, nil)
		old, _ := get(t, rest)
		server.say(2, nil)
		server.takes(patience / 2)
		time.Sleep(time.Hour)
		initial := startWatch(t, rest, metainternalversion.ListOptions{})
		defer initial.Stop()
		resumed := startWatch(t, rest, metainternalversion.ListOptions{ResourceVersion: old.ResourceVersion})
		defer resumed.Stop()
		expectNothing(t, initial)
		expectNothing(t, resumed)
		time.Sleep(patience / 2)
		expect(t, initial, watch.Added, 2)
		expect(t, resumed, watch.Modified, 2)
		expectNothing(t, resumed)
	})
}

// TestWatchOfADeadServer asserts that a watch begins with what there is.
func TestWatchOfADeadServer(t *testing.T) {
	t.Parallel()
	for name, took := range map[string]time.Duration{"refuses": 0, "hangs": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, rest *REST, server *script) {
				server.takes(took)
				server.say(0, errDown)
				begun := time.Now()
				watcher := startWatch(t, rest, metainternalversion.ListOptions{})
				defer watcher.Stop()
				if waited := time.Since(begun); waited != 0 {
					t.Errorf("a watch begins after %s", waited)
				}
				<-time.After(min(took, patience))
				expect(t, watcher, watch.Added, -1)

				server.takes(0)
				server.say(3, nil)
				time.Sleep(time.Minute)
				expect(t, watcher, watch.Modified, 3)
			})
		})
	}
}

// TestBookmarks asserts that those who want it are told the version now and then.
func TestBookmarks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, _ *script) {
		list := list(t, rest)
		with := startWatch(t, rest, metainternalversion.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
		defer with.Stop()
		without := startWatch(t, rest, metainternalversion.ListOptions{ResourceVersion: list.ResourceVersion})
		defer without.Stop()
		for range 3 {
			expectNothing(t, with)
			time.Sleep(bookmarkEvery)
			if v := expect(t, with, watch.Bookmark, -1); v.String() != list.ResourceVersion {
				t.Errorf("the bookmark is at %s, the list was at %s", v, list.ResourceVersion)
			}
		}

		// A new version of the same state is no news, but good to know.
		before, _ := rest.store.present()
		moved := rest.store.notOlderThan(before.version + version(time.Hour))
		time.Sleep(bookmarkEvery)
		if v := expect(t, with, watch.Bookmark, -1); v != moved.version {
			t.Errorf("the bookmark is at %s, the present version is %s", v, moved.version)
		}
		expectNothing(t, with)
		expectNothing(t, without)
	})
}

// TestSlowWatcher asserts that a client which does not read keeps nobody waiting, and finds
// the last state when it reads again.
func TestSlowWatcher(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		slow := startWatch(t, rest, metainternalversion.ListOptions{})
		defer slow.Stop()
		fast := startWatch(t, rest, metainternalversion.ListOptions{})
		defer fast.Stop()
		expect(t, fast, watch.Added, 0)
		for total := range int64(50) {
			server.say(total+1, nil)
			time.Sleep(minPause)
			expect(t, fast, watch.Modified, total+1)
		}
		expect(t, slow, watch.Added, 50)
		expectNothing(t, slow)
		server.say(51, nil)
		time.Sleep(minPause)
		server.say(52, nil)
		time.Sleep(minPause)
		expect(t, slow, watch.Modified, 52)
		expectNothing(t, slow)
	})
}

// TestEncodedOnce asserts that news are encoded once for all watchers that want one form.
func TestEncodedOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		const watchers = 100
		encoded := 0
		encode := func(object runtime.Object, w io.Writer) error {
			encoded++
			_, err := fmt.Fprintf(w, "%d", total(object.(*inferencecache.CacheIndex)))
			return err
		}
		var all []watch.Interface
		for range watchers {
			watcher := startWatch(t, rest, metainternalversion.ListOptions{})
			defer watcher.Stop()
			expect(t, watcher, watch.Added, 0)
			all = append(all, watcher)
		}
		server.say(8, nil)
		time.Sleep(minPause)
		synctest.Wait()
		for i, watcher := range all {
			event := <-watcher.ResultChan()
			form := runtime.Identifier([]string{"json", "table"}[i%2])
			var out bytes.Buffer
			if err := event.Object.(runtime.CacheableObject).CacheEncode(form, encode, &out); err != nil || out.String() != "8" {
				t.Fatalf("got %q, %v", out.String(), err)
			}
		}
		if encoded != 2 {
			t.Errorf("encoded %d times for 2 forms", encoded)
		}
	})
}

// TestServersSideBySide lets clients list at one server and watch at another, whose clocks
// are apart, while the index changes. Nobody may get an error, see a version go back, or end
// with anything but the last state.
func TestServersSideBySide(t *testing.T) {
	t.Parallel()
	const clients, reconnects = 20, 100
	synctest.Test(t, func(t *testing.T) {
		server := &script{}
		var servers []*REST
		for _, offset := range []time.Duration{0, 20 * time.Second, -20 * time.Second} {
			rest := NewREST(server, serverURL, skewed{offset: offset})
			defer rest.Destroy()
			servers = append(servers, rest)
		}
		truth := int64(0)
		done := make(chan int64, clients)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		last := make([]int64, clients)
		for i := range clients {
			go func() {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				any := func() *REST { return servers[random.IntN(len(servers))] }
				from := list(t, any())
				last[i] = total(&from.Items[0])
				version := from.ResourceVersion
				for range reconnects {
					version, last[i] = follow(ctx, t, any(), version, last[i], time.Duration(random.IntN(3000))*time.Millisecond)
				}
				_, last[i] = follow(ctx, t, any(), version, last[i], time.Hour)
				done <- last[i]
			}()
		}
		for range 150 {
			truth++
			server.say(truth, nil)
			time.Sleep(700 * time.Millisecond)
		}
		time.Sleep(time.Hour + 5*time.Minute)
		for range clients {
			if got := <-done; got != truth {
				t.Errorf("a client ends with %d, the truth is %d", got, truth)
			}
		}
	})
}

// follow watches for a time, and returns the version and the state at the end.
func follow(ctx context.Context, t *testing.T, rest *REST, version string, state int64, d time.Duration) (string, int64) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	watcher, err := rest.Watch(ctx, &metainternalversion.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Errorf("watching from %s: %v", version, err)
		return version, state
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		got := decode(t, event)
		if before, _ := parseVersion(version); got.kind != watch.Modified || got.version <= before {
			t.Errorf("got %s at %s, was at %s", got.kind, got.version, version)
		}
		version, state = got.version.String(), got.total
	}
	return version, state
}

// TestRestart asserts that a client of a server which is replaced by another goes on.
func TestRestart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		server.say(1, nil)
		index, _ := get(t, rest)
		rest.Destroy()
		restarted := NewREST(server, serverURL, skewed{})
		defer restarted.Destroy()
		watcher := startWatch(t, restarted, metainternalversion.ListOptions{ResourceVersion: index.ResourceVersion})
		defer watcher.Stop()
		expect(t, watcher, watch.Modified, 1)
		if again, _ := get(t, restarted); again.UID != index.UID {
			t.Error("it is another object")
		}
		if _, err := restarted.Get(t.Context(), Name, &metav1.GetOptions{ResourceVersion: index.ResourceVersion}); err != nil {
			t.Error(err)
		}
	})
}
