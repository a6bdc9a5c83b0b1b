// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cacheserver"
)

// noon is when engines told of their last event. A fraction of a second is not stored.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC)

func row(pod string, prefixes int64) cacheserver.Replica {
	return cacheserver.Replica{ID: pod, PrefixCount: prefixes, LastEventAt: noon}
}

// TestParticipation is one controller that reads an index. It restarts the controller, and must not run beside other tests.
func TestParticipation(t *testing.T) {
	proxy := newFaultyProxy(t)
	s := newStage(t, "--kubeconfig="+proxy.kubeconfig)
	for _, test := range []struct {
		name string
		run  func(*stage)
	}{
		{"wakes the KV gate", (*stage).testWakesKVGate},
		{"attribution", (*stage).testAttribution},
		{"second tier", (*stage).testSecondTier},
		{"unlisted namespace", func(s *stage) { s.testUnlistedNamespace(proxy) }},
		{"failed scrapes", (*stage).testFailedScrapes},
	} {
		t.Run(test.name, func(t *testing.T) {
			of := *s
			of.T = t
			test.run(&of)
		})
	}
}

// testWakesKVGate: without a selector nothing but the write of the poller makes the controller look again in time.
func (s *stage) testWakesKVGate() {
	namespace := newEngines(s.T, "p0")
	b := s.backend(namespace, "cache", waitsForKVEvents, func(b *v1alpha1.CacheBackend) { b.Spec.EngineSelector = nil },
		func(b *v1alpha1.CacheBackend) {
			b.Spec.Observation = &v1alpha1.ObservationSpec{FirstEventTimeout: &metav1.Duration{Duration: time.Hour}}
		})
	b.waitReady(metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstKVEvent)
	b.kubectl("annotate", "pod", "p0", v1alpha1.AnnotationInjectedBy+"="+namespace+"/cache")
	s.holds(namespace, cacheserver.Replica{ID: "p0", StatsReported: true, LastUpdate: noon})
	b.waitParticipation("0") // Statistics are no events.
	s.waitTicks(1)
	b.waitReady(metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstKVEvent)
	s.holds(namespace, row("p0", 3))
	b.waitReady(metav1.ConditionTrue, v1alpha1.ReasonKVEventsObserved)
	b.waitParticipation("3 12:00:00")
	s.holds(namespace)
	b.waitParticipation("0")
	s.waitTicks(1)
	b.waitReady(metav1.ConditionTrue, v1alpha1.ReasonKVEventsObserved)
}

// testAttribution: a replica is one backend's, by the wiring of its pod or else by the first selector.
func (s *stage) testAttribution() {
	namespace := newEngines(s.T, "p0", "p1")
	alpha, beta := s.backend(namespace, "alpha"), s.backend(namespace, "beta")
	later := row("p1", 3)
	later.LastEventAt = noon.Add(5 * time.Second)
	s.holds(namespace, row("p0", 2), later, row("gone", 100))
	alpha.waitParticipation("5 12:00:05")
	s.waitTicks(1)
	beta.waitParticipation("unset")

	alpha.kubectl("annotate", "pod", "p0", v1alpha1.AnnotationInjectedBy+"="+namespace+"/beta")
	alpha.waitParticipation("3 12:00:05")
	beta.waitParticipation("2 12:00:00")

	eventually(s.T, "the event is latched", func(ctx context.Context) error {
		backend, err := beta.backends().Get(ctx, beta.name, metav1.GetOptions{})
		if err == nil && backend.Status.FirstKVEventObservedAt == nil {
			err = errors.New("it is not")
		}
		return err
	})
	version := beta.backend().ResourceVersion
	later.LastUpdate = noon.Add(time.Minute) // No news of the backends.
	s.holds(namespace, row("p0", 2), later)
	s.waitTicks(2)
	if got := beta.backend().ResourceVersion; got != version {
		s.Errorf("the version went from %s to %s, and nothing has changed", version, got)
	}

	s.holds(namespace)
	alpha.waitParticipation("0")
	beta.waitParticipation("0")
}

// testSecondTier: a hit rate of old goes, and that of the second tier is published as are its metrics.
func (s *stage) testSecondTier() {
	namespace := newEngines(s.T, "p0", "p1")
	b := s.backend(namespace, "cache")
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"indexParticipation": map[string]any{"prefixCount": 1, "hitRate": "0.5"}}})
	must(s.T, err)
	b.kubectl("patch", "cachebackend", b.name, "--subresource=status", "--type=merge", "-p="+string(patch))
	one, two := row("p0", 1), row("p1", 1)
	one.T2HitTokens, one.T2QueryTokens, two.T2QueryTokens = 1, 2, 1
	s.holds(namespace, one, two)
	b.waitParticipation("2 12:00:00 t2 0.33333334")
	s.expectT2Series(namespace, `hit_rate{backend="%s/cache"} 0.3333333333333333`, `query_tokens_total{backend="%s/cache"} 0`)
	one.T2QueryTokens = 7
	s.holds(namespace, one, two)
	b.waitParticipation("2 12:00:00 t2 0.125")
	s.expectT2Series(namespace, `hit_rate{backend="%s/cache"} 0.125`, `query_tokens_total{backend="%s/cache"} 5`)
	b.kubectl("delete", "cachebackend", b.name)
	s.waitTicks(1)
	s.expectT2Series(namespace)
}

// expectT2Series checks exactly which series there are.
func (s *stage) expectT2Series(namespace string, want ...string) {
	s.Helper()
	var series []string
	for _, format := range want {
		series = append(series, fmt.Sprintf("inferencecache_backend_t2_"+format, namespace))
	}
	if diff := cmp.Diff(series, s.series("inferencecache_backend_t2_", namespace)); diff != "" {
		s.Errorf("series (-want +got):\n%s", diff)
	}
}

// testUnlistedNamespace: where the pods are not known nothing changes, and elsewhere all goes on.
func (s *stage) testUnlistedNamespace(proxy *faultyProxy) {
	broken, fine := newEngines(s.T, "p0"), newEngines(s.T, "p0")
	inBroken, inFine := s.backend(broken, "cache"), s.backend(fine, "cache")
	s.holds(broken, row("p0", 1))
	s.holds(fine, row("p0", 1), row("gone", 7))
	inBroken.waitParticipation("1 12:00:00")
	inFine.waitParticipation("1 12:00:00")

	proxy.failPods(broken, true)
	version := inBroken.backend().ResourceVersion
	s.holds(broken, row("p0", 2))
	s.holds(fine, row("p0", 2), row("gone", 7))
	inFine.waitParticipation("2 12:00:00")
	s.waitTicks(2)
	if backend := inBroken.backend(); describe(backend) != "1 12:00:00" {
		s.Errorf("without its pods the participation went to %s, the version from %s to %s", describe(backend), version, backend.ResourceVersion)
	}
	if told := s.logged("Could not list engine pods"); told != 1 {
		s.Errorf("the failure is logged %d times", told)
	}
	proxy.failPods(broken, false)
	inBroken.waitParticipation("2 12:00:00")
}

// testFailedScrapes: whatever goes wrong with a reading of the index, nothing follows from it.
func (s *stage) testFailedScrapes() {
	namespace := newEngines(s.T, "p0")
	b := s.backend(namespace, "cache")
	tenant := createTenant(s.T, namespace, "t", namespace, new(int64(3)))
	good := row("p0", 1)
	good.T2HitTokens, good.T2QueryTokens = 1, 2
	s.holds(namespace, good)
	s.counts(map[string]int64{namespace: 2})
	const published = "1 12:00:00 t2 0.5"
	b.waitParticipation(published)
	series := s.series("inferencecache_backend_t2_", namespace)
	if len(series) != 2 {
		s.Fatalf("the series are %v", series)
	}
	waitTenant(s.T, tenant, "2 True/Observed False/WithinBudget")

	elsewhere, err := cacheserver.New(cacheserver.Options{})
	must(s.T, err)
	s.Cleanup(func() { _ = elsewhere.Stop() })
	never := make(chan struct{})
	body := string(cacheserver.Snapshot{Replicas: []cacheserver.Replica{row("p0", 9)}}.Encode())
	token, err := os.ReadFile(s.tokenFile)
	must(s.T, err)
	for _, failure := range []struct {
		name     string
		behavior cacheserver.Behavior
		token    string
	}{
		{"error", cacheserver.Answer(500, "out of order"), ""},
		{"unavailable", cacheserver.Answer(503, "token review unavailable"), ""},
		{"not found", cacheserver.Answer(404, ""), ""},
		{"another success", cacheserver.Answer(206, body), ""},
		{"HTML", cacheserver.Answer(200, "<html><body>welcome</body></html>"), ""},
		{"null", cacheserver.Answer(200, "null"), ""},
		{"half a body", cacheserver.Answer(200, body[:len(body)/2]), ""},
		{"a list", cacheserver.Answer(200, "[]"), ""},
		{"no answer", cacheserver.HoldUntil(never), ""},
		{"half an answer", cacheserver.Stall(body[:len(body)/2], never), ""},
		{"broken connection", cacheserver.Drop(), ""},
		{"redirect", cacheserver.Redirect(307, elsewhere.URL(cacheserver.SnapshotPath)), ""},
		{"the token in an error", cacheserver.Repeat(500), ""},
		{"another audience", nil, s.policyTokenFile},
		{"no token", nil, os.DevNull},
	} {
		tenantBefore := getTenant(s.T, tenant)
		s.server.SetBehavior(cacheserver.SnapshotPath, failure.behavior)
		s.waitTicks(0) // The reading that was under way.
		if failure.token != "" {
			other, err := os.ReadFile(failure.token)
			must(s.T, err)
			must(s.T, os.WriteFile(s.tokenFile, other, 0o600))
			s.waitTicks(1) // The next one may have the former token.
		}
		s.holds(namespace) // It would be another story.
		s.counts(nil)
		s.waitTicks(1)
		if got := describe(b.backend()); got != published {
			s.Errorf("%s: the participation became %s", failure.name, got)
		}
		if got := getTenant(s.T, tenant); got.ResourceVersion != tenantBefore.ResourceVersion {
			s.Errorf("%s: the tenant was written (-before +after):\n%s", failure.name, cmp.Diff(tenantBefore.Status, got.Status))
		}
		if diff := cmp.Diff(series, s.series("inferencecache_backend_t2_", namespace)); diff != "" {
			s.Errorf("%s: series (-before +after):\n%s", failure.name, diff)
		}
		s.holds(namespace, good)
		s.counts(map[string]int64{namespace: 2})
		must(s.T, os.WriteFile(s.tokenFile, token, 0o600))
		s.server.SetBehavior(cacheserver.SnapshotPath, nil)
		s.waitTicks(1)
	}
	if count := elsewhere.Requests(cacheserver.SnapshotPath); count != 0 {
		s.Errorf("%d redirects were followed", count)
	}
	if told := s.logged("Could not read the cache server's index"); told < 10 || told > 20 {
		s.Errorf("15 failures are logged %d times", told)
	}
}

// TestWithoutCacheServer: where there is none the controller works all the same, and says once what is missing. It restarts the
// controller, and must not run beside other tests.
func TestWithoutCacheServer(t *testing.T) {
	s := newStage(t, "--server-snapshot-url=http://127.0.0.1:1/snapshot", "--cacheindex-refresh-interval=50ms",
		"--server-policy-url=http://127.0.0.1:1/policy", "--cachepolicy-push-interval=50ms")
	complaints := []string{"Could not read the cache server's index", "Could not push policies to the cache server"}
	for _, text := range complaints {
		s.waitLogged(text)
	}
	b := create(t)
	b.waitBackendReady()
	b.waitParticipation("unset")
	for _, text := range complaints {
		if told := s.logged(text); told != 1 {
			t.Errorf("%q is logged %d times", text, told)
		}
	}
}
