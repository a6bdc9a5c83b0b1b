// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestKVGate(t *testing.T) {
	t.Parallel()
	breach := &metav1.Condition{Message: "No KV event was observed within 1m0s."}
	up := verdict{ready: true, reason: v1alpha1.ReasonBackendReady, message: "1/1 replicas available."}
	tests := []struct {
		name     string
		gate     kvGate
		want     string
		degraded bool
		deadline time.Duration
		message  []string
	}{
		{name: "replicas unavailable", gate: kvGate{base: notReady("ReplicasUnavailable", "0/1"), seen: true},
			want: "ReplicasUnavailable", degraded: true},
		{name: "conflict, opted out", gate: kvGate{base: notReady("WorkloadConflict", "Deployment cache"), optedOut: true},
			want: "WorkloadConflict", degraded: true},
		{name: "rollout after a breach", gate: kvGate{base: notReady("RolloutInProgress", "0/1"), breach: breach}, want: "RolloutInProgress"},
		{name: "scaled to zero", gate: kvGate{base: notReady("ScaledToZero", "zero")}, want: "ScaledToZero"},
		{name: "opted out", gate: kvGate{base: up, optedOut: true, breach: breach, now: start.Add(time.Hour)}, want: "BackendReady"},
		{name: "seen after a breach", gate: kvGate{base: up, seen: true, breach: breach, now: start.Add(time.Hour)}, want: "KVEventsObserved"},
		{name: "breached before", gate: kvGate{base: up, breach: breach, timeout: time.Hour, now: start}, want: "NoKVEventsObserved",
			degraded: true, message: []string{breach.Message}},
		{name: "in time", gate: kvGate{base: up, now: start.Add(4 * time.Minute)}, want: "AwaitingFirstKVEvent",
			deadline: time.Minute, message: []string{"5m0s"}},
		{name: "a moment before the deadline", gate: kvGate{base: up, now: start.Add(5*time.Minute - 1)}, want: "AwaitingFirstKVEvent", deadline: 1},
		{name: "at the deadline", gate: kvGate{base: up, now: start.Add(5 * time.Minute)}, want: "NoKVEventsObserved",
			degraded: true, message: []string{"5m0s", "engine pods", "--kv-events-config"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := tt.gate
			g.anchor = start
			if g.timeout == 0 {
				g.timeout = 5 * time.Minute
			}
			got := g.judge()
			ready := tt.want == "BackendReady" || tt.want == "KVEventsObserved"
			if got.ready.reason != tt.want || got.ready.ready != ready || got.degraded != tt.degraded || got.deadline != tt.deadline {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
			for _, text := range tt.message {
				if !strings.Contains(got.ready.message, text) {
					t.Errorf("the message %q does not have %q", got.ready.message, text)
				}
			}
			for _, text := range []string{"workload", "Deployment"} {
				if g.base.ready && strings.Contains(got.ready.message, text) {
					t.Errorf("the message %q speaks of a %s, which a backend may not have", got.ready.message, text)
				}
			}
		})
	}
}

func TestStoredBreach(t *testing.T) {
	t.Parallel()
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason}
	}
	tests := []struct {
		name       string
		conditions []metav1.Condition
		want       string
	}{
		{name: "nothing stored"},
		{name: "both", want: "Degraded", conditions: []metav1.Condition{
			condition("Ready", "False", "NoKVEventsObserved"), condition("Degraded", "True", "NoKVEventsObserved")}},
		{name: "masked by another gate", want: "Degraded", conditions: []metav1.Condition{
			condition("Ready", "False", "EngineKernelDegraded"), condition("Degraded", "True", "NoKVEventsObserved")}},
		{name: "Ready alone", want: "Ready", conditions: []metav1.Condition{condition("Ready", "False", "NoKVEventsObserved")}},
		{name: "other reasons", conditions: []metav1.Condition{
			condition("Ready", "False", "AwaitingFirstKVEvent"), condition("Degraded", "True", "ReplicasUnavailable")}},
		{name: "Degraded that does not hold", conditions: []metav1.Condition{condition("Degraded", "False", "NoKVEventsObserved")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := storedBreach(&v1alpha1.CacheBackendStatus{Conditions: tt.conditions})
			if (got == nil) != (tt.want == "") || (got != nil && got.Type != tt.want) {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

func TestFirstEventTimeout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change change
		want   time.Duration
	}{
		{name: "no observation", change: func(b *v1alpha1.CacheBackend) { b.Spec.Observation = nil }, want: 5 * time.Minute},
		{name: "not said", change: func(b *v1alpha1.CacheBackend) { b.Spec.Observation.FirstEventTimeout = nil }, want: 5 * time.Minute},
		{name: "zero", change: timeout(0), want: 5 * time.Minute},
		{name: "negative", change: timeout(-time.Minute), want: 5 * time.Minute},
		{name: "set", change: timeout(90 * time.Second), want: 90 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := firstEventTimeout(newBackend(tt.change)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Only the exact value switches the gate off.
func TestGateAnnotation(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"false": "Ready=True/BackendReady", "False": "Ready=False/AwaitingFirstKVEvent",
		" false": "Ready=False/AwaitingFirstKVEvent", "": "Ready=False/AwaitingFirstKVEvent", "no": "Ready=False/AwaitingFirstKVEvent",
	} {
		decision := newStory(t, gate(value)).pass(available(1))
		if got := published(&decision.Status)[2]; got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
