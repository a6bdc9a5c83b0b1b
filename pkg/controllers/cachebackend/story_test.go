// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// What a managed backend publishes in the states that stories go through.
var (
	rollingOut = []string{"Ready=False/RolloutInProgress", "Progressing=True/RolloutInProgress", "Degraded=False/NotDegraded"}
	awaiting   = []string{"Ready=False/AwaitingFirstKVEvent", "Progressing=True/AwaitingFirstKVEvent", "Degraded=False/NotDegraded"}
	working    = []string{"Ready=True/KVEventsObserved", "Progressing=False/Synced", "Degraded=False/NotDegraded"}
	silent     = []string{"Ready=False/NoKVEventsObserved", "Progressing=False/NoKVEventsObserved", "Degraded=True/NoKVEventsObserved"}
	short      = []string{"Ready=False/ReplicasUnavailable", "Progressing=False/Degraded", "Degraded=True/ReplicasUnavailable"}
	refused    = []string{"Ready=False/WorkloadConflict", "Progressing=False/WorkloadConflict", "Degraded=True/WorkloadConflict"}
)

func TestStoryFirstPass(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	decision := s.pass(with(available(1), func(w *Workload) {
		*w = Workload{Exists: true, Controlled: true, Generation: 1, DesiredReplicas: 1}
	}))
	wantConditions(t, decision, rollingOut...)
	wantEvents(t, decision)
	status := decision.Status
	if status.Endpoint != address || status.ObservedGeneration != 1 || !*status.FailOpen || decision.RequeueAfter != 30*time.Second {
		t.Errorf("%+v, requeue after %s", status, decision.RequeueAfter)
	}
	if got := messageOf(t, decision, "Ready"); !strings.Contains(got, "0/1") {
		t.Errorf("Ready says %q", got)
	}
}

func TestStoryConflict(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	foreign := with(available(1), func(w *Workload) { w.Controlled = false })
	foreign.Endpoint, foreign.Applied.Refused = "", &Refusal{Kind: "Deployment", Name: "cache"}
	decision := s.pass(foreign)
	wantConditions(t, decision, refused...)
	wantEvents(t, decision, "Warning/WorkloadConflict")
	if note := decision.Events[0].Note; !strings.Contains(note, "Deployment cache") {
		t.Errorf("the note is %q", note)
	}
	if decision.RequeueAfter != 30*time.Second || decision.Status.ObservedGeneration != 0 {
		t.Errorf("requeue after %s, generation %d", decision.RequeueAfter, decision.Status.ObservedGeneration)
	}
	wantEvents(t, s.after(30*time.Second).pass(foreign))
	decision = s.after(30 * time.Second).pass(available(1))
	wantConditions(t, decision, awaiting...)
	wantEvents(t, decision, "Normal/AwaitingFirstKVEvent")
}

func TestStoryRejectedUpdate(t *testing.T) {
	t.Parallel()
	s := newStory(t, optedOut)
	s.pass(available(1))
	observation := available(1)
	observation.Applied.Err = errors.New("connection refused")
	decision := s.edit().pass(observation)
	wantConditions(t, decision, "Ready=True/BackendReady", "Progressing=False/Synced", "Degraded=False/NotDegraded")
	if decision.Status.ObservedGeneration != 1 || find(&decision.Status, "Ready").ObservedGeneration != 1 {
		t.Errorf("%+v", decision.Status)
	}
}

func TestStoryFirstKVEvent(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	decision := s.pass(available(1))
	wantConditions(t, decision, awaiting...)
	wantEvents(t, decision, "Normal/AwaitingFirstKVEvent")
	s.anchored(0)
	wantEvents(t, s.after(30*time.Second).pass(available(1)))

	decision = s.after(30 * time.Second).event().pass(available(1))
	wantConditions(t, decision, working...)
	wantEvents(t, decision, "Normal/KVEventsObserved")
	if decision.Status.FirstKVEventObservedAt == nil {
		t.Error("the first KV event is not latched")
	}
	decision = s.after(time.Hour).drain().pass(available(1))
	wantConditions(t, decision, working...)
	wantEvents(t, decision)
}

func TestStoryKVEventBeforeTheFirstAvailablePass(t *testing.T) {
	t.Parallel()
	decision := newStory(t).event().pass(available(1))
	wantConditions(t, decision, working...)
	wantEvents(t, decision, "Normal/KVEventsObserved")
}

func TestStoryNoKVEvent(t *testing.T) {
	t.Parallel()
	s := newStory(t, timeout(time.Minute))
	s.pass(available(1))
	decision := s.after(10 * time.Minute).pass(available(1))
	wantConditions(t, decision, silent...)
	wantEvents(t, decision, "Warning/NoKVEventsObserved")
	before := messageOf(t, decision, "Ready")

	decision = s.after(time.Minute).edit(timeout(time.Hour)).pass(available(1))
	wantConditions(t, decision, silent...)
	wantEvents(t, decision)
	if got := messageOf(t, decision, "Ready"); got != before {
		t.Errorf("the message went from %q to %q", before, got)
	}
	decision = s.after(time.Minute).event().pass(available(1))
	wantConditions(t, decision, working...)
	wantEvents(t, decision, "Normal/KVEventsObserved")
}

func TestStoryOutage(t *testing.T) {
	t.Parallel()
	s := newStory(t).event()
	s.pass(available(1))
	decision := s.after(time.Minute).pass(broken())
	wantConditions(t, decision, short...)
	wantEvents(t, decision, "Warning/BackendDegraded")
	wantEvents(t, s.after(time.Minute).pass(broken()))
	decision = s.after(time.Minute).pass(available(1))
	wantConditions(t, decision, working...)
	wantEvents(t, decision, "Normal/BackendRecovered")
}

func TestStoryRollout(t *testing.T) {
	t.Parallel()
	updating := &Progress{Status: "True", Reason: "ReplicaSetUpdated"}
	tests := []struct {
		name   string
		change func(*Workload)
	}{
		{"nothing updated", func(w *Workload) { w.UpdatedReplicas, w.Progressing = 0, updating }},
		{"the old pod still serves", func(w *Workload) { w.Replicas, w.Progressing = 2, updating }},
		{"the old pod is gone and the new one not up", func(w *Workload) { w.AvailableReplicas, w.Progressing = 0, updating }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t).event()
			s.pass(available(1))
			decision := s.after(time.Minute).edit().pass(with(available(1), tt.change))
			wantConditions(t, decision, rollingOut...)
			wantEvents(t, decision)
			decision = s.after(time.Minute).pass(available(1))
			wantConditions(t, decision, working...)
			wantEvents(t, decision)
		})
	}
}

func TestStoryFirstStart(t *testing.T) {
	t.Parallel()
	for _, kind := range []change{func(*v1alpha1.CacheBackend) {}, statefulSet} {
		s := newStory(t, kind)
		decision := s.pass(with(available(1), func(w *Workload) {
			w.AvailableReplicas, w.Progressing = 0, &Progress{Status: "True", Reason: "NewReplicaSetCreated"}
		}))
		wantConditions(t, decision, rollingOut...)
		wantEvents(t, decision)
	}
}

func TestStoryOptedOut(t *testing.T) {
	t.Parallel()
	wantConditions(t, newStory(t, optedOut).pass(available(1)), "Ready=True/BackendReady", "Progressing=False/Synced", "Degraded=False/NotDegraded")
	wantConditions(t, newStory(t, gate("False")).pass(available(1)), awaiting...)
	wantConditions(t, newStory(t, optedOut, eventsOnly).pass(Observation{}), "Ready=True/EventsOnlyActive", "Progressing=False/Synced", "Degraded=False/NotDegraded")
	for _, changes := range [][]change{{optedOut, hostOnly}, {optedOut, hostOnly, statefulSet}} {
		wantConditions(t, newStory(t, changes...).pass(Observation{}), "Ready=True/HostOnlyActive", "Progressing=False/Synced", "Degraded=False/NotDegraded")
	}
}

func TestStoryScaledToZero(t *testing.T) {
	t.Parallel()
	s := newStory(t, func(b *v1alpha1.CacheBackend) { b.Spec.Replicas = new(int32(0)) })
	decision := s.pass(available(0))
	wantConditions(t, decision, "Ready=False/ScaledToZero", "Progressing=False/ScaledToZero", "Degraded=False/NotDegraded")
	if decision.Status.Endpoint != address {
		t.Errorf("the endpoint is %q", decision.Status.Endpoint)
	}
}

func TestStoryFailClosed(t *testing.T) {
	t.Parallel()
	s := newStory(t, failOpenIs(false)).event()
	decision := s.pass(available(1))
	wantEvents(t, decision, "Normal/KVEventsObserved", "Warning/FailClosedEnabled")
	if *decision.Status.FailOpen {
		t.Error("status.failOpen is true")
	}
	wantEvents(t, s.after(time.Minute).pass(available(1)))
	wantEvents(t, s.edit(failOpenIs(true)).pass(available(1)), "Normal/FailOpenRestored")
}

func TestStoryMatchedPods(t *testing.T) {
	t.Parallel()
	s := newStory(t, selector(map[string]string{"b": "2", "a": "1"})).event()
	s.pass(available(1))
	steps := []struct {
		name    string
		engines Engines
		count   int32
		message string
		event   bool
		requeue time.Duration
	}{
		{name: "nothing there", engines: Engines{PodsListed: true, DeploymentsListed: true}, message: "{a:1,b:2}", event: true, requeue: 30 * time.Second},
		{name: "still nothing", engines: Engines{PodsListed: true, DeploymentsListed: true}, message: "{a:1,b:2}", requeue: 30 * time.Second},
		{name: "Deployment at zero", engines: Engines{PodsListed: true, DeploymentsListed: true, Deployments: 1}, requeue: 30 * time.Second},
		{name: "Deployment at two, one pod", engines: Engines{PodsListed: true, Pods: 1, LivePods: 1, DeploymentsListed: true, Deployments: 1, DesiredReplicas: 2},
			count: 1, requeue: 5 * time.Second},
		{name: "two live, one failed", engines: Engines{PodsListed: true, Pods: 3, LivePods: 2, DeploymentsListed: true, Deployments: 1, DesiredReplicas: 2},
			count: 3, requeue: 30 * time.Second},
		{name: "pods not listed", engines: Engines{DeploymentsListed: true}, count: 3, requeue: 30 * time.Second},
		{name: "all gone", engines: Engines{PodsListed: true, DeploymentsListed: true}, message: "{a:1,b:2}", event: true, requeue: 30 * time.Second},
	}
	for _, step := range steps {
		observation := available(1)
		observation.Engines = step.engines
		decision := s.after(30 * time.Second).pass(observation)
		status := decision.Status
		if *status.MatchedEnginePods != step.count || decision.RequeueAfter != step.requeue ||
			(status.EngineSelectorMessage == "") != (step.message == "") || !strings.Contains(status.EngineSelectorMessage, step.message) {
			t.Errorf("%s: matched %d, message %q, requeue after %s", step.name, *status.MatchedEnginePods, status.EngineSelectorMessage, decision.RequeueAfter)
		}
		if slices.Contains(told(decision), "Normal/EngineSelectorUnmatched") != step.event {
			t.Errorf("%s: events are %v", step.name, told(decision))
		}
	}
}
