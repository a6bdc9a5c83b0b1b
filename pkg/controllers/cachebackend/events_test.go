// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// statusOf reads conditions that are written as type=status/reason.
func statusOf(conditions ...string) *v1alpha1.CacheBackendStatus {
	status := &v1alpha1.CacheBackendStatus{}
	for _, text := range conditions {
		conditionType, rest, _ := strings.Cut(text, "=")
		value, reason, _ := strings.Cut(rest, "/")
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: conditionType, Status: metav1.ConditionStatus(value), Reason: reason, Message: "Message of " + conditionType + ".",
		})
	}
	return status
}

func TestEvents(t *testing.T) {
	t.Parallel()
	works := statusOf("Ready=True/KVEventsObserved", "Degraded=False/NotDegraded")
	rolls := statusOf("Ready=False/RolloutInProgress", "Degraded=False/NotDegraded")
	short := statusOf("Ready=False/ReplicasUnavailable", "Degraded=True/ReplicasUnavailable")
	conflict := statusOf("Ready=False/WorkloadConflict", "Degraded=True/WorkloadConflict")
	awaits := statusOf("Ready=False/AwaitingFirstKVEvent", "Degraded=False/NotDegraded")
	silent := statusOf("Ready=False/NoKVEventsObserved", "Degraded=True/NoKVEventsObserved")
	masked := statusOf("Ready=False/EngineKernelDegraded", "Degraded=True/NoKVEventsObserved")
	kernels := statusOf("Ready=False/EngineKernelDegraded", "Degraded=False/NotDegraded")
	probe := statusOf("Ready=False/ProbeIngestFailed", "Degraded=False/NotDegraded")
	external := statusOf("Ready=True/ExternalEndpointAccepted", "Progressing=False/ExternalEndpointAccepted")
	nothing := statusOf()
	tests := []struct {
		name     string
		from, to *v1alpha1.CacheBackendStatus
		want     []string
	}{
		{name: "first rollout", from: nothing, to: rolls},
		{name: "steady", from: works, to: works},
		{name: "conflict at first", from: nothing, to: conflict, want: []string{"Warning/WorkloadConflict"}},
		{name: "conflict after an outage", from: short, to: conflict, want: []string{"Warning/WorkloadConflict"}},
		{name: "conflict stays", from: conflict, to: conflict},
		{name: "conflict resolved", from: conflict, to: works},
		{name: "outage", from: works, to: short, want: []string{"Warning/BackendDegraded"}},
		{name: "outage stays", from: short, to: short},
		{name: "outage after silence", from: silent, to: short, want: []string{"Warning/BackendDegraded"}},
		{name: "outage after a conflict", from: conflict, to: short, want: []string{"Warning/BackendDegraded"}},
		{name: "recovery", from: short, to: works, want: []string{"Normal/BackendRecovered"}},
		{name: "recovery by way of a rollout, first half", from: short, to: rolls},
		{name: "recovery by way of a rollout, second half", from: rolls, to: works},
		{name: "up again without an event yet", from: short, to: awaits, want: []string{"Normal/AwaitingFirstKVEvent"}},
		{name: "up", from: rolls, to: awaits, want: []string{"Normal/AwaitingFirstKVEvent"}},
		{name: "still waiting", from: awaits, to: awaits},
		{name: "waiting again", from: kernels, to: awaits, want: []string{"Normal/AwaitingFirstKVEvent"}},
		{name: "too late", from: awaits, to: silent, want: []string{"Warning/NoKVEventsObserved"}},
		{name: "too late behind another gate", from: kernels, to: masked, want: []string{"Warning/NoKVEventsObserved"}},
		{name: "no longer behind it", from: masked, to: silent},
		{name: "silence broken", from: silent, to: works},
		{name: "probe fails", from: works, to: probe},
		{name: "probe passes", from: probe, to: works},
		{name: "kernels fail", from: works, to: kernels},
		{name: "external", from: nothing, to: external},
		{name: "unmanaged", from: short, to: nothing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantEvents(t, Decision{Events: events(tt.from, tt.to, Observation{})}, tt.want...)
		})
	}
}

func TestEventsOfFields(t *testing.T) {
	t.Parallel()
	failOpen := func(value *bool) *v1alpha1.CacheBackendStatus { return &v1alpha1.CacheBackendStatus{FailOpen: value} }
	latched := &v1alpha1.CacheBackendStatus{FirstKVEventObservedAt: new(metav1.NewTime(start))}
	nothing := &v1alpha1.CacheBackendStatus{}
	tests := []struct {
		name     string
		from, to *v1alpha1.CacheBackendStatus
		want     []string
	}{
		{name: "closed at first", from: failOpen(nil), to: failOpen(new(false)), want: []string{"Warning/FailClosedEnabled"}},
		{name: "closed", from: failOpen(new(true)), to: failOpen(new(false)), want: []string{"Warning/FailClosedEnabled"}},
		{name: "closed as before", from: failOpen(new(false)), to: failOpen(new(false))},
		{name: "open at first", from: failOpen(nil), to: failOpen(new(true))},
		{name: "open again", from: failOpen(new(false)), to: failOpen(new(true)), want: []string{"Normal/FailOpenRestored"}},
		{name: "first KV event", from: nothing, to: latched, want: []string{"Normal/KVEventsObserved"}},
		{name: "KV events as before", from: latched, to: latched},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantEvents(t, Decision{Events: events(tt.from, tt.to, Observation{})}, tt.want...)
		})
	}
}

// The order within a pass is fixed.
func TestOrderOfEvents(t *testing.T) {
	t.Parallel()
	s := newStory(t, selector(map[string]string{"a": "1"}), failOpenIs(false))
	observation := available(1)
	observation.Engines = Engines{PodsListed: true, DeploymentsListed: true}
	s.event()
	observation.Applied.Refused = &Refusal{Kind: "Service", Name: "cache"}
	decision := s.pass(observation)
	wantEvents(t, decision, "Normal/EngineSelectorUnmatched", "Warning/WorkloadConflict", "Normal/KVEventsObserved", "Warning/FailClosedEnabled")
	conflict := decision.Events[slices.IndexFunc(decision.Events, func(e Event) bool { return e.Reason == "WorkloadConflict" })]
	if !strings.Contains(conflict.Note, "Service cache") {
		t.Errorf("the note %q does not name the object", conflict.Note)
	}
	if note := decision.Events[2].Note; strings.Contains(strings.ToLower(note), "ready") {
		t.Errorf("the note %q claims more than an observation", note)
	}
}
