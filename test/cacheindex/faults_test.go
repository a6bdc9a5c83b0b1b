// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cacheserver"
)

// TestFaults asserts what readers get from a cache server in trouble: the last that was known, and a warning that says why it is
// not fresh. Each begins with replicas that know nothing, and so are quick to try.
func TestFaults(t *testing.T) {
	otherToken := func(t *testing.T) {
		if err := env.writeToken(t.Context(), cacheserver.PolicyAudience); err != nil {
			t.Fatal(err)
		}
	}
	behave := func(behavior cacheserver.Behavior) func(*testing.T) {
		return func(*testing.T) { env.server.SetBehavior(cacheserver.SnapshotPath, behavior) }
	}
	elsewhere, err := cacheserver.New(cacheserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = elsewhere.Stop() }()
	for _, tt := range []struct {
		name  string
		begin func(*testing.T)
		// cause is a part of the warning.
		cause string
	}{
		{"refuses", func(t *testing.T) {
			if err := env.server.Stop(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := env.server.Start(); err != nil {
					t.Fatal(err)
				}
			})
		}, "connection refused"},
		{"drops", behave(cacheserver.Drop()), "EOF"},
		{"500", behave(cacheserver.Answer(http.StatusInternalServerError, "out of order")), "500 Internal Server Error: out of order"},
		{"404", behave(cacheserver.Answer(http.StatusNotFound, "")), "404 Not Found"},
		{"garbage", behave(cacheserver.Answer(http.StatusOK, "<html>")), "decoding the snapshot"},
		{"another object", behave(cacheserver.Answer(http.StatusOK, `{"replicas":7}`)), "replicas is not an array"},
		{"half an answer", behave(cacheserver.Answer(http.StatusOK, `{"replicas":[`)), "unexpected EOF"},
		{"100 MB", behave(flood), "larger than 1048576 bytes"},
		{"redirect", behave(cacheserver.Redirect(http.StatusFound, elsewhere.URL(cacheserver.SnapshotPath))), "not followed"},
		{"repeats the token", behave(cacheserver.Repeat(http.StatusTeapot)), "repeats the token"},
		{"wrong token", otherToken, "401 Unauthorized"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			restart(t)
			say(77)
			tt.begin(t)
			expectWarning(t, -1, "has not been read yet: ", tt.cause)
		})
		expectNoToken(t)
	}
	if got := elsewhere.Requests(cacheserver.SnapshotPath); got != 0 {
		t.Errorf("the redirect was followed %d times", got)
	}
}

// flood answers each request with 100 MB.
func flood(endpoint http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cacheserver.Flood(http.StatusOK, ' ', 100<<20)(endpoint).ServeHTTP(w, r)
	})
}

// TestLastGood asserts that what was known stays, with its age, and that the index is fresh again when the server is.
func TestLastGood(t *testing.T) {
	restart(t)
	say(78)
	for i := range env.replicas {
		env.balancer.setRoute(func(*http.Request) int { return i })
		eventually(t, "the replica has read the index", func(ctx context.Context) error {
			index, _, err := read(ctx)
			if err == nil && total(index) != 78 {
				err = fmt.Errorf("it shows %d", total(index))
			}
			return err
		})
	}
	env.balancer.setRoute(nil)
	say(79)
	env.server.SetBehavior(cacheserver.SnapshotPath, cacheserver.Answer(http.StatusServiceUnavailable, "token review unavailable"))
	expectWarning(t, 78, "is shown as it was ", "503 Service Unavailable")

	stdout, stderr, err := env.cluster.Kubectl(t.Context(), "get", "ci")
	if err != nil || !strings.Contains(stdout, " 78 ") || !strings.Contains(stderr, "Warning: the cache index is shown as it was ") {
		t.Errorf("kubectl: %v\n%s%s", err, stdout, stderr)
	}
	working(t)
	eventually(t, "the index is fresh again", func(ctx context.Context) error {
		if index, warnings, err := read(ctx); err != nil || total(index) != 79 || len(warnings) > 0 {
			return fmt.Errorf("got %v, %q, %v", index, warnings, err)
		}
		return nil
	})
}

// TestHangingServer asserts that nobody waits for a cache server that does not answer: the warning of a reader tells of a call
// that goes on, and a watch begins.
func TestHangingServer(t *testing.T) {
	for name, hang := range map[string]func(released <-chan struct{}) cacheserver.Behavior{
		"no answer": cacheserver.HoldUntil,
		"half an answer": func(released <-chan struct{}) cacheserver.Behavior {
			return cacheserver.Stall(`{"replicas":`, released)
		},
	} {
		t.Run(name, func(t *testing.T) {
			restart(t)
			released := make(chan struct{})
			defer close(released)
			env.server.SetBehavior(cacheserver.SnapshotPath, hang(released))
			defer env.balancer.setRoute(nil)
			env.balancer.setRoute(func(*http.Request) int { return 0 })
			expectWarning(t, -1, "has not been read yet: ", "the cache server has not answered for ")

			env.balancer.setRoute(func(*http.Request) int { return 1 })
			watcher, err := indices().Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer watcher.Stop()
			event := <-watcher.ResultChan()
			if index, ok := event.Object.(*v1alpha1.CacheIndex); !ok || event.Type != watch.Added || total(index) != -1 {
				t.Errorf("the watch begins with %s %+v", event.Type, event.Object)
			}
		})
	}
	restart(t)
}

// restart replaces both replicas by such that know nothing, and makes the cache server work.
func restart(t *testing.T) {
	t.Helper()
	for _, r := range env.replicas {
		r.restart(t)
	}
	env.server.SetBehavior(cacheserver.SnapshotPath, nil)
	if err := env.writeToken(t.Context(), cacheserver.ControllerAudience); err != nil {
		t.Fatal(err)
	}
}

// expectWarning waits until readers are warned, and checks what they get beside that.
func expectWarning(t *testing.T, wantTotal int64, parts ...string) {
	t.Helper()
	eventually(t, "readers are warned", func(ctx context.Context) error {
		index, warnings, err := read(ctx)
		if err != nil {
			t.Fatalf("a reader gets an error: %v", err)
		}
		if total(index) != wantTotal {
			t.Fatalf("a reader gets %d, want %d", total(index), wantTotal)
		}
		if len(warnings) == 0 {
			return errors.New("no warning")
		}
		for _, part := range parts {
			// A slow machine may warn that there is no answer yet, before it is known.
			if !strings.Contains(warnings[0], part) {
				return fmt.Errorf("the warning is %q, without %q", warnings[0], part)
			}
		}
		return nil
	})
}
