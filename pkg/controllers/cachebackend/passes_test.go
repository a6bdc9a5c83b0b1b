// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// story is one backend over several passes: what a pass decides is what the next one reads.
type story struct {
	*testing.T
	backend *v1alpha1.CacheBackend
	now     time.Time
}

func newStory(t *testing.T, changes ...change) *story {
	return &story{T: t, backend: newBackend(changes...), now: start}
}

func (s *story) after(elapsed time.Duration) *story {
	s.now = s.now.Add(elapsed)
	return s
}

// edit changes the spec, as a write to the main resource does.
func (s *story) edit(changes ...change) *story {
	for _, change := range changes {
		change(s.backend)
	}
	s.backend.Generation++
	return s
}

// event is a write of the poller that saw a KV event.
func (s *story) event() *story {
	s.backend.Status.IndexParticipation = &v1alpha1.IndexParticipation{
		PrefixCount: 2, LastEventAt: new(metav1.NewTime(s.now.Add(-time.Hour).Truncate(time.Second))),
	}
	return s
}

// drain is a write of the poller that finds no engines any more.
func (s *story) drain() *story {
	s.backend.Status.IndexParticipation = &v1alpha1.IndexParticipation{}
	return s
}

// pass decides and stores, and checks what holds for every decision.
func (s *story) pass(observation Observation) Decision {
	s.Helper()
	before := s.backend.DeepCopy()
	observation = s.completed(observation)
	decision := Decide(s.backend, observation, s.now)
	if diff := cmp.Diff(before, s.backend); diff != "" {
		s.Fatalf("the backend was changed (-before +after):\n%s", diff)
	}
	checkDecision(s.T, decision)
	checkLatches(s.T, &before.Status, &decision.Status)
	s.backend.Status = stored(s.T, decision.Status)
	again := Decide(s.backend, observation, s.now)
	if !apiequality.Semantic.DeepEqual(s.backend.Status, again.Status) || len(again.Events) != 0 {
		s.Fatalf("deciding again changes (-stored +again):\n%s\nand tells %v", cmp.Diff(s.backend.Status, again.Status), again.Events)
	}
	return decision
}

// completed adds to an observation what the backend itself asks for.
func (s *story) completed(observation Observation) Observation {
	s.Helper()
	if Classify(s.backend).Path == adapters.Managed {
		rendered, err := render(s.backend)
		if err != nil {
			s.Fatal(err)
		}
		observation.Replicas = rendered.Replicas
	}
	return observation
}

// stored is a status as it comes back from the API server.
func stored(t *testing.T, status v1alpha1.CacheBackendStatus) v1alpha1.CacheBackendStatus {
	t.Helper()
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.CacheBackendStatus
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if !apiequality.Semantic.DeepEqual(status, back) {
		t.Errorf("the wire does not keep the status (-decided +read):\n%s", cmp.Diff(status, back))
	}
	return back
}

// checkDecision checks what holds for every decision.
func checkDecision(t *testing.T, decision Decision) {
	t.Helper()
	status := decision.Status
	for _, err := range metav1validation.ValidateConditions(status.Conditions, field.NewPath("status", "conditions")) {
		t.Errorf("invalid condition: %v", err)
	}
	for _, condition := range status.Conditions {
		if condition.Message == "" {
			t.Errorf("%s has no message", condition.Type)
		}
	}
	for _, event := range decision.Events {
		if event.Note == "" || len(event.Note) > maxNote {
			t.Errorf("the event %s has a note of %d bytes", event.Reason, len(event.Note))
		}
	}
	checkTriple(t, &status)
	if decision.RequeueAfter < 0 {
		t.Errorf("requeue after %s", decision.RequeueAfter)
	}
}

// checkTriple checks that Ready, Progressing and Degraded do not contradict each other.
func checkTriple(t *testing.T, status *v1alpha1.CacheBackendStatus) {
	t.Helper()
	ready, progressing, degraded := find(status, v1alpha1.ConditionReady), find(status, v1alpha1.ConditionProgressing), find(status, v1alpha1.ConditionDegraded)
	if (ready == nil) != (progressing == nil) || (ready == nil && degraded != nil) {
		t.Fatalf("incomplete conditions: %v", published(status))
	}
	if ready == nil {
		return
	}
	isTrue := func(condition *metav1.Condition) bool {
		return condition != nil && condition.Status == metav1.ConditionTrue
	}
	holding := 0
	for _, condition := range []*metav1.Condition{ready, progressing, degraded} {
		if isTrue(condition) {
			holding++
		}
	}
	if holding > 1 {
		t.Errorf("contradicting conditions: %v", published(status))
	}
	if masked := ready.Reason == v1alpha1.ReasonEngineKernelDegraded; isTrue(degraded) && degraded.Reason != ready.Reason && !masked {
		t.Errorf("degraded for %s, not ready for %s", degraded.Reason, ready.Reason)
	}
	if isTrue(progressing) && progressing.Reason != ready.Reason {
		t.Errorf("progressing for %s, not ready for %s", progressing.Reason, ready.Reason)
	}
	for _, condition := range []*metav1.Condition{progressing, degraded} {
		if condition != nil && condition.ObservedGeneration != ready.ObservedGeneration {
			t.Errorf("%s is about generation %d, Ready about %d", condition.Type, condition.ObservedGeneration, ready.ObservedGeneration)
		}
	}
}

// checkLatches checks that what was latched stays.
func checkLatches(t *testing.T, before, after *v1alpha1.CacheBackendStatus) {
	t.Helper()
	if before.FirstKVEventObservedAt != nil && !before.FirstKVEventObservedAt.Equal(after.FirstKVEventObservedAt) {
		t.Errorf("firstKVEventObservedAt went from %v to %v", before.FirstKVEventObservedAt, after.FirstKVEventObservedAt)
	}
	if !apiequality.Semantic.DeepEqual(before.IndexParticipation, after.IndexParticipation) {
		t.Errorf("indexParticipation is another writer's and went from %v to %v", before.IndexParticipation, after.IndexParticipation)
	}
}

// published is the conditions of a status as type=status/reason, sorted.
func published(status *v1alpha1.CacheBackendStatus) []string {
	texts := make([]string, 0, len(status.Conditions))
	for _, condition := range status.Conditions {
		texts = append(texts, condition.Type+"="+string(condition.Status)+"/"+condition.Reason)
	}
	slices.Sort(texts)
	return texts
}

// told is the events of a decision as type/reason.
func told(decision Decision) []string {
	var texts []string
	for _, event := range decision.Events {
		texts = append(texts, event.Type+"/"+event.Reason)
	}
	return texts
}

// wantConditions checks exactly which conditions are published.
func wantConditions(t *testing.T, decision Decision, want ...string) {
	t.Helper()
	// The caller's slice may be shared between parallel tests.
	want = slices.Sorted(slices.Values(want))
	if diff := cmp.Diff(want, published(&decision.Status), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// wantEvents checks exactly which events are told, in order.
func wantEvents(t *testing.T, decision Decision, want ...string) {
	t.Helper()
	if !slices.Equal(want, told(decision)) {
		t.Errorf("events are %v, want %v", told(decision), want)
	}
}

// messageOf is the message of a condition.
func messageOf(t *testing.T, decision Decision, conditionType string) string {
	t.Helper()
	condition := find(&decision.Status, conditionType)
	if condition == nil {
		t.Fatalf("there is no condition %s", conditionType)
	}
	return condition.Message
}
