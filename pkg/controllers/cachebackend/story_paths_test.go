// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"testing"
	"time"
)

func TestStoryToExternal(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.backend.Status = everything()
	latch := s.backend.Status.FirstKVEventObservedAt
	decision := s.edit(external("LMCacheServer", "lm://h:1")).pass(Observation{})
	wantConditions(t, decision, "Ready=True/ExternalEndpointAccepted", "Progressing=False/ExternalEndpointAccepted")
	status := decision.Status
	if status.ObservedServerInstance != "" || status.FirstAvailableAt != nil || !latch.Equal(status.FirstKVEventObservedAt) {
		t.Errorf("%+v", status)
	}
}

func TestStoryToEventsOnly(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.pass(available(1))
	wantConditions(t, s.after(time.Hour).pass(available(1)), silent...)
	decision := s.after(time.Minute).edit(eventsOnly).pass(Observation{})
	wantConditions(t, decision, awaiting...)
	wantEvents(t, decision, "Normal/AwaitingFirstKVEvent")
	s.anchored(time.Hour + time.Minute)
	if decision.Status.Endpoint != "" {
		t.Errorf("the endpoint is %q", decision.Status.Endpoint)
	}
}

func TestStoryToUnmanaged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{"HiCache": hiCache, "VLLM with Redis": managed("Redis")} {
		s := newStory(t).event()
		s.pass(available(1))
		decision := s.edit(change).pass(Observation{})
		wantConditions(t, decision)
		status := decision.Status
		if status.Endpoint != "" || status.FirstAvailableAt != nil || status.FirstKVEventObservedAt == nil || status.ObservedGeneration != 2 {
			t.Errorf("%s: %+v", name, status)
		}
	}
}

func TestStoryStatefulSet(t *testing.T) {
	t.Parallel()
	s := newStory(t).event()
	s.pass(available(1))
	starting := with(available(1), func(w *Workload) {
		w.AvailableReplicas, w.CurrentRevision, w.UnreadyPods = 0, "r1", []UnreadyPod{{CreatedAt: start}}
	})
	decision := s.after(time.Minute).edit(statefulSet).pass(starting)
	wantConditions(t, decision, rollingOut...)
	wantEvents(t, decision)
	decision = s.after(time.Minute).pass(available(1))
	wantConditions(t, decision, working...)
	wantEvents(t, decision)
	s.anchored(0)
}

func TestStoryEventsOnlyWins(t *testing.T) {
	t.Parallel()
	decision := newStory(t, eventsOnly, external("LMCacheServer", "lm://h:1")).pass(Observation{})
	wantConditions(t, decision, awaiting...)
	if decision.Status.Endpoint != "" {
		t.Errorf("the endpoint is %q", decision.Status.Endpoint)
	}
}
