// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"inferencecache.io/inferencecache/test/cacheserver"
	"inferencecache.io/inferencecache/test/cluster"
)

// follower is a kubectl that watches the index and prints its number of prefixes.
type follower struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	read   chan struct{} // closed when all output is read

	mu    sync.Mutex
	lines []string
}

func startFollower(t *testing.T) *follower {
	t.Helper()
	f := &follower{read: make(chan struct{})}
	f.cmd = exec.Command(env.cluster.Programs["kubectl"], "get", "ci", "--watch", "-o", `jsonpath={.status.prefixes.summary.total}{"\n"}`)
	f.cmd.Env = append(os.Environ(), "KUBECONFIG="+env.cluster.Kubeconfig, "KUBECACHEDIR="+filepath.Join(env.cluster.Dir, "kubectl"))
	f.cmd.Stderr = &f.stderr
	stdout, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartProcess(f.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.read)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			f.mu.Lock()
			f.lines = append(f.lines, scanner.Text())
			f.mu.Unlock()
		}
	}()
	return f
}

// output returns what kubectl has printed so far.
func (f *follower) output() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.lines...)
}

// stop ends kubectl, which must not have ended by itself, and returns its complaints.
func (f *follower) stop(t *testing.T) string {
	t.Helper()
	if err := f.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Errorf("kubectl has ended before it was told to: %v", err)
	}
	<-f.read
	_ = f.cmd.Wait() // It ends with the signal, which Wait takes for an error.
	return withoutWarnings(f.stderr.String())
}

// lag makes the cache server tell one replica what it tells now, whatever it tells others later.
func lag(number int, truth int64) cacheserver.Behavior {
	body := index(truth).Encode()
	return func(endpoint http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == fmt.Sprintf("replica=%d", number) {
				_, _ = w.Write(body)
				return
			}
			endpoint.ServeHTTP(w, r)
		})
	}
}

// TestListHereWatchThere asserts that kubectl, whose list is answered by one replica and whose watch by the other, always ends
// up with the last state and never with an error. The replica that answers the lists is behind; the other one learns the last
// state while half of them begin, and has it when the others do.
func TestListHereWatchThere(t *testing.T) {
	working(t)
	const rounds, half = 10, 5
	truth := int64(1000)
	for round := range rounds {
		here := round % 2
		undo := env.balancer.split(here)
		env.server.SetBehavior(cacheserver.SnapshotPath, lag(here, truth))
		lists, watches := env.balancer.servedBy(here, false), env.balancer.servedBy(1-here, true)

		var all []*follower
		for range half {
			all = append(all, startFollower(t))
			truth++
			say(truth)
			// The changes fall before, between and after the list and the watch of each.
			select {
			case <-time.After(rand.N(200 * time.Millisecond)):
			case <-t.Context().Done():
			}
		}
		expectLast(t, all, truth)
		for range half {
			all = append(all, startFollower(t))
		}
		expectLast(t, all, truth)
		for _, f := range all {
			if complaints := f.stop(t); strings.TrimSpace(complaints) != "" {
				t.Errorf("round %d: kubectl complains: %s", round, complaints)
			}
		}
		expectLast(t, all, truth)

		lists, watches = env.balancer.servedBy(here, false)-lists, env.balancer.servedBy(1-here, true)-watches
		if lists < 2*half || watches < 2*half {
			t.Errorf("round %d: one replica answered %d lists and the other %d watches, want %d of each", round, lists, watches, 2*half)
		}
		undo()
	}
	env.server.SetBehavior(cacheserver.SnapshotPath, nil)
}

// expectLast waits until the last line of each kubectl is the truth.
func expectLast(t *testing.T, all []*follower, truth int64) {
	t.Helper()
	want := fmt.Sprint(truth)
	for i, f := range all {
		eventually(t, fmt.Sprintf("kubectl %d prints %s", i, want), func(context.Context) error {
			if lines := f.output(); len(lines) == 0 || lines[len(lines)-1] != want {
				return fmt.Errorf("it prints %q", lines)
			}
			return nil
		})
	}
}
