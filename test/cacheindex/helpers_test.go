// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	typedv1alpha1 "inferencecache.io/inferencecache/pkg/generated/clientset/versioned/typed/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cacheserver"
)

const indexName = "cluster-default"

func indices() typedv1alpha1.CacheIndexInterface {
	return env.inference.InferencecacheV1alpha1().CacheIndices()
}

// index is an index with a number of prefixes.
func index(total int64) cacheserver.Snapshot {
	return cacheserver.Snapshot{Tenants: []cacheserver.Tenant{{ID: "orchid", IndexEntries: total}}}
}

// say sets the number of prefixes that the cache server tells from now on.
func say(total int64) { env.server.SetSnapshot(index(total)) }

func total(index *v1alpha1.CacheIndex) int64 {
	if index.Status.Prefixes == nil || index.Status.Prefixes.Summary == nil {
		return -1
	}
	return index.Status.Prefixes.Summary.Total
}

// working makes the cache server work as it should, whatever the test before has left.
func working(t *testing.T) {
	t.Helper()
	env.server.SetBehavior(cacheserver.SnapshotPath, nil)
	if err := env.writeToken(t.Context(), cacheserver.ControllerAudience); err != nil {
		t.Fatal(err)
	}
	for i := range env.replicas {
		env.balancer.setRoute(func(*http.Request) int { return i })
		eventually(t, "a replica shows what the cache server says", func(ctx context.Context) error {
			_, warnings, err := read(ctx)
			if err == nil && len(warnings) > 0 {
				err = errors.New(warnings[0])
			}
			return err
		})
	}
	env.balancer.setRoute(nil)
}

// oneReplica lets a single replica answer until the test ends: what one has shown, the other may not have read yet.
func oneReplica(t *testing.T) {
	t.Helper()
	env.balancer.setRoute(func(*http.Request) int { return 0 })
	t.Cleanup(func() { env.balancer.setRoute(nil) })
}

// read gets the object by a list, which tests can route, and the warnings.
func read(ctx context.Context) (*v1alpha1.CacheIndex, []string, error) {
	result := env.inference.InferencecacheV1alpha1().RESTClient().Get().Resource("cacheindices").Do(ctx)
	var list v1alpha1.CacheIndexList
	if err := result.Into(&list); err != nil {
		return nil, nil, err
	}
	var warnings []string
	for _, warning := range result.Warnings() {
		warnings = append(warnings, warning.Text)
	}
	if len(list.Items) != 1 {
		return nil, warnings, errors.New("the list does not hold one object")
	}
	return &list.Items[0], warnings, nil
}

// eventually waits until the check returns no error.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("not tried yet")
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, last)
	}
}

// kubectl runs kubectl as an administrator and returns its standard output. It fails if there is anything else to say.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := env.cluster.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if stderr = withoutWarnings(stderr); stderr != "" {
		t.Errorf("kubectl %v complains: %s", args, stderr)
	}
	return stdout
}

// withoutWarnings leaves out that the cache server was slow, which a busy machine may make it.
func withoutWarnings(stderr string) string {
	var rest []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "Warning: the cache index ") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}

// arrivals remembers when requests for the index arrive, by the clock of the cache server.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
}

func (a *arrivals) behavior() cacheserver.Behavior {
	return func(endpoint http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a.mu.Lock()
			a.times = append(a.times, time.Now())
			a.mu.Unlock()
			endpoint.ServeHTTP(w, r)
		})
	}
}

func (a *arrivals) all() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Time(nil), a.times...)
}

// expectNoToken checks that no replica has written the token to its log.
func expectNoToken(t *testing.T) {
	t.Helper()
	token, err := os.ReadFile(env.tokenFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range env.replicas {
		log, err := os.ReadFile(r.APIServer.Log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), strings.TrimSpace(string(token))) {
			t.Errorf("the token is in %s", r.APIServer.Log)
		}
	}
}

func getIndex(t *testing.T) *v1alpha1.CacheIndex {
	t.Helper()
	index, err := indices().Get(t.Context(), indexName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return index
}
