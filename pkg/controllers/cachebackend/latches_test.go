// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// anchored checks when the time for the first KV event began, counted from the start.
func (s *story) anchored(want time.Duration) {
	s.Helper()
	began := s.backend.Status.FirstAvailableAt
	if began == nil {
		s.Errorf("there is no firstAvailableAt, want it at %s", want)
		return
	}
	if got := began.Sub(start.Truncate(time.Second)); got != want {
		s.Errorf("firstAvailableAt is at %s, want %s", got, want)
	}
}

func (s *story) notAnchored() {
	s.Helper()
	if s.backend.Status.FirstAvailableAt != nil {
		s.Errorf("firstAvailableAt is %v, want none", s.backend.Status.FirstAvailableAt)
	}
}

func TestAnchorOfAManagedBackend(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.pass(with(available(1), func(w *Workload) { w.AvailableReplicas, w.UpdatedReplicas = 0, 0 }))
	s.notAnchored()
	s.after(time.Minute).pass(available(1))
	s.anchored(time.Minute)
	s.after(time.Minute).pass(broken())
	s.after(time.Minute).pass(available(1))
	s.after(time.Minute).pass(Observation{Endpoint: address})
	s.after(time.Minute).edit(managed("Mooncake")).pass(available(1))
	s.anchored(time.Minute)
	s.after(time.Minute).edit(statefulSet).pass(available(1))
	s.anchored(time.Minute)
	s.edit(hiCache).pass(Observation{})
	s.notAnchored()
}

func TestAnchorStartsBeforeTheGates(t *testing.T) {
	t.Parallel()
	s := newStory(t, optedOut)
	s.pass(available(1))
	s.anchored(0)
}

// A Service that is held up must not start the time again in every pass.
func TestAnchorWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	observation := available(1)
	observation.Endpoint = ""
	s := newStory(t)
	for range 3 {
		s.pass(observation)
		s.anchored(0)
		s.after(time.Minute)
	}
	s.after(time.Hour)
	wantConditions(t, s.pass(observation), "Ready=False/NoKVEventsObserved", "Progressing=False/NoKVEventsObserved", "Degraded=True/NoKVEventsObserved")
}

func TestAnchorMovesWithTheMode(t *testing.T) {
	t.Parallel()
	s := newStory(t, eventsOnly)
	s.pass(Observation{})
	s.anchored(0)
	s.after(time.Minute).edit(hostOnly).pass(Observation{})
	s.anchored(0)

	// To a tier: the time begins when the workload is up.
	s.after(time.Hour).edit(managed("LMCacheServer"))
	s.backend.Spec.Integration.Mode = "Offload"
	s.pass(with(available(1), func(w *Workload) { w.UpdatedReplicas = 0 }))
	s.notAnchored()
	s.after(time.Minute).pass(available(1))
	s.anchored(time.Hour + 2*time.Minute)

	// From a tier: it begins at once.
	s.after(time.Minute).edit(hostOnly).pass(Observation{})
	s.anchored(time.Hour + 3*time.Minute)
	s.after(time.Minute).edit(eventsOnly).pass(Observation{})
	s.anchored(time.Hour + 3*time.Minute)
}

// A server instance alone tells that there was a tier, as after a change of provider, for
// which the API server empties the endpoint.
func TestServerInstanceTellsOfATier(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{"managed": managed("Mooncake"), "host-only": hostOnly} {
		s := newStory(t)
		s.pass(available(1))
		s.backend.Status.Endpoint, s.backend.Status.ObservedServerInstance = "", "a:0"
		s.after(time.Minute).edit(change).pass(available(1))
		want := map[string]time.Duration{"managed": 0, "host-only": time.Minute}[name]
		s.anchored(want)
	}
}

func TestBreachOfAnotherMode(t *testing.T) {
	t.Parallel()
	waits := []string{"Ready=False/AwaitingFirstKVEvent", "Progressing=True/AwaitingFirstKVEvent", "Degraded=False/NotDegraded"}
	silent := []string{"Ready=False/NoKVEventsObserved", "Progressing=False/NoKVEventsObserved", "Degraded=True/NoKVEventsObserved"}
	s := newStory(t, eventsOnly)
	s.pass(Observation{})
	wantConditions(t, s.after(time.Hour).pass(Observation{}), silent...)
	wantConditions(t, s.edit(hostOnly).pass(Observation{}), silent...)
	// A workload that is up at once, as after a restart of the controller.
	s.backend.Spec.Integration.Mode = "Offload"
	wantConditions(t, s.edit(managed("LMCacheServer")).pass(available(1)), waits...)
	wantConditions(t, s.after(time.Hour).pass(available(1)), silent...)
	wantConditions(t, s.edit(eventsOnly).pass(Observation{}), waits...)
}

func TestFirstKVEventLatch(t *testing.T) {
	t.Parallel()
	for name, observation := range map[string]Observation{"rollout": {Endpoint: address}, "available": available(1), "broken": broken()} {
		s := newStory(t, optedOut)
		decision := s.event().pass(observation)
		if !decision.Status.FirstKVEventObservedAt.Equal(new(metav1.NewTime(start.Truncate(time.Second)))) {
			t.Errorf("%s: latched %v, want the time of the observation", name, decision.Status.FirstKVEventObservedAt)
		}
	}
	for name, change := range map[string]change{"external": external("LMCacheServer", "h:1"), "unmanaged": hiCache} {
		if decision := newStory(t, change).event().pass(Observation{}); decision.Status.FirstKVEventObservedAt != nil {
			t.Errorf("%s: latched %v", name, decision.Status.FirstKVEventObservedAt)
		}
	}
	if decision := newStory(t).drain().pass(available(1)); decision.Status.FirstKVEventObservedAt != nil {
		t.Error("latched without an event")
	}
}
