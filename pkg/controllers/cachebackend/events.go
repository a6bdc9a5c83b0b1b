// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// maxNote is the most that the events API takes as a note.
const maxNote = 1024

// Event is something to be told about a backend, once. It must not be told before the
// status that it is about is stored.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason is also the action of the event.
	Reason string
	Note   string
}

// transition is the step from a stored status to the next.
type transition struct {
	from, to *v1alpha1.CacheBackendStatus
	engines  Engines
	wired    Wired
}

// events says what is to be told about the step from one status to the next. It follows
// from the two statuses, so that no pass tells again what an earlier one did.
func events(from, to *v1alpha1.CacheBackendStatus, observation Observation) []Event {
	t := transition{from: from, to: to, engines: observation.Engines, wired: observation.Wired}
	degraded := message(to, v1alpha1.ConditionDegraded)
	var happened []Event
	for _, candidate := range []struct {
		happens   bool
		eventType string
		reason    string
		note      string
	}{
		{t.enginesCrash(), corev1.EventTypeWarning, v1alpha1.EventInjectedEngineCrashLooping,
			message(to, v1alpha1.ConditionEngineCompatibility)},
		{t.selectorUnmatched(), corev1.EventTypeNormal, v1alpha1.EventEngineSelectorUnmatched, to.EngineSelectorMessage},
		{t.degradesFor(v1alpha1.ReasonWorkloadConflict), corev1.EventTypeWarning, v1alpha1.EventWorkloadConflict, degraded},
		{t.degradesFor(v1alpha1.ReasonReplicasUnavailable), corev1.EventTypeWarning, v1alpha1.EventBackendDegraded, degraded},
		{t.recovers(), corev1.EventTypeNormal, v1alpha1.EventBackendRecovered, message(to, v1alpha1.ConditionReady)},
		{t.awaits(), corev1.EventTypeNormal, v1alpha1.EventAwaitingFirstKVEvent, message(to, v1alpha1.ConditionReady)},
		{t.seesFirstKVEvent(), corev1.EventTypeNormal, v1alpha1.EventKVEventsObserved,
			"The first KV event of the engine pods was observed."},
		{t.degradesFor(v1alpha1.ReasonNoKVEventsObserved), corev1.EventTypeWarning, v1alpha1.EventNoKVEventsObserved, degraded},
		{failsOpenIn(from) && !failsOpenIn(to), corev1.EventTypeWarning, v1alpha1.EventFailClosedEnabled,
			"spec.integration.failOpen is false: engines depend on the cache to serve."},
		{!failsOpenIn(from) && failsOpenIn(to), corev1.EventTypeNormal, v1alpha1.EventFailOpenRestored,
			"spec.integration.failOpen is true: engines serve without the cache when it cannot be reached."},
	} {
		if candidate.happens {
			happened = append(happened, Event{
				Type: candidate.eventType, Reason: candidate.reason, Note: cut(candidate.note, maxNote),
			})
		}
	}
	return happened
}

// enginesCrash is about the first sight of engines that keep crashing, unless all of them
// were announced before and have only seemed to recover.
func (t transition) enginesCrash() bool {
	return is(find(t.to, v1alpha1.ConditionEngineCompatibility), metav1.ConditionFalse, v1alpha1.ReasonInjectedEngineCrashLooping) &&
		!is(find(t.from, v1alpha1.ConditionEngineCompatibility), metav1.ConditionFalse, v1alpha1.ReasonInjectedEngineCrashLooping) &&
		slices.ContainsFunc(t.wired.CrashLooping, func(loop CrashLoop) bool { return !loop.Announced })
}

// selectorUnmatched is about the first sight of a selector that finds nothing. A change of
// the selector that still finds nothing is no news, and without the Deployments it is not
// known whether engines are expected.
func (t transition) selectorUnmatched() bool {
	if !t.engines.DeploymentsListed || t.to.EngineSelectorMessage == "" ||
		t.to.MatchedEnginePods == nil || *t.to.MatchedEnginePods != 0 {
		return false
	}
	before := t.from.MatchedEnginePods
	return before == nil || *before > 0 || t.from.EngineSelectorMessage == ""
}

// degradesFor looks at Degraded rather than Ready, which other gates may take over.
func (t transition) degradesFor(reason string) bool {
	return is(find(t.to, v1alpha1.ConditionDegraded), metav1.ConditionTrue, reason) &&
		!is(find(t.from, v1alpha1.ConditionDegraded), metav1.ConditionTrue, reason)
}

// recovers is about the way back in one step. By way of a rollout it is the rollout's story.
func (t transition) recovers() bool {
	ready := find(t.to, v1alpha1.ConditionReady)
	return stuck(t.from) && ready != nil && ready.Status == metav1.ConditionTrue
}

func (t transition) awaits() bool {
	return is(find(t.to, v1alpha1.ConditionReady), metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstKVEvent) &&
		!is(find(t.from, v1alpha1.ConditionReady), metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstKVEvent)
}

func (t transition) seesFirstKVEvent() bool {
	return t.from.FirstKVEventObservedAt == nil && t.to.FirstKVEventObservedAt != nil
}

// failsOpenIn reads a status; the default holds until the first one is written.
func failsOpenIn(status *v1alpha1.CacheBackendStatus) bool {
	return status.FailOpen == nil || *status.FailOpen
}

func message(status *v1alpha1.CacheBackendStatus, conditionType string) string {
	condition := find(status, conditionType)
	if condition == nil {
		return ""
	}
	return condition.Message
}
