// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// everything is a status in which nothing is left out.
func everything() v1alpha1.CacheBackendStatus {
	long := metav1.NewTime(start.Add(-time.Hour).Truncate(time.Second))
	status := v1alpha1.CacheBackendStatus{
		Endpoint:               address,
		MatchedEnginePods:      new(int32(2)),
		FailOpen:               new(true),
		IndexParticipation:     &v1alpha1.IndexParticipation{PrefixCount: 1, LastEventAt: new(long), T2HitRate: new("0.5")},
		FirstKVEventObservedAt: new(long),
		FirstAvailableAt:       new(long),
		ObservedServerInstance: "a:0",
		ObservedGeneration:     1,
	}
	for conditionType, reason := range map[string]string{
		"Ready": "KVEventsObserved", "Progressing": "Synced", "Degraded": "NotDegraded", "FunctionalProbeOK": "ProbeOK",
		"EngineKernelsHealthy": "KernelsHealthy", "T2Degraded": "T2Serving", "EngineCompatibility": "InjectedEngineCrashLooping",
	} {
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: "Before.", LastTransitionTime: long, ObservedGeneration: 1,
		})
	}
	return status
}

// TestPathsLeaveBehind has what each path makes of a status that has everything.
func TestPathsLeaveBehind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path           string
		change         change
		endpoint       string
		serverInstance string
		// available is kept, fresh or nil.
		available  string
		conditions []string
	}{
		{path: "Managed", change: func(*v1alpha1.CacheBackend) {}, endpoint: address, serverInstance: "a:0", available: "kept",
			conditions: []string{"Ready", "Progressing", "Degraded", "FunctionalProbeOK", "EngineKernelsHealthy", "T2Degraded", "EngineCompatibility"}},
		{path: "HostOnly", change: hostOnly, available: "fresh",
			conditions: []string{"Ready", "Progressing", "Degraded", "EngineKernelsHealthy", "EngineCompatibility"}},
		{path: "EventsOnly", change: eventsOnly, available: "fresh", conditions: []string{"Ready", "Progressing", "Degraded"}},
		{path: "External", change: external("LMCacheServer", " lm://h:1 "), endpoint: "lm://h:1", available: "nil",
			conditions: []string{"Ready", "Progressing"}},
		{path: "Unmanaged", change: hiCache, available: "nil"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, tt.change, selector(map[string]string{"a": "1"}), failOpenIs(false))
			s.backend.Generation, s.backend.Status = 2, everything()
			observation := available(1)
			observation.Engines = Engines{PodsListed: true, Pods: 3, LivePods: 3}
			observation.Probe = Probe{Enabled: true}
			status := s.pass(observation).Status

			var types []string
			for _, condition := range status.Conditions {
				types = append(types, condition.Type)
			}
			slices.Sort(types)
			slices.Sort(tt.conditions)
			if !slices.Equal(types, tt.conditions) {
				t.Errorf("conditions are %v, want %v", types, tt.conditions)
			}
			if status.Endpoint != tt.endpoint || status.ObservedServerInstance != tt.serverInstance {
				t.Errorf("endpoint %q, server instance %q", status.Endpoint, status.ObservedServerInstance)
			}
			if status.ObservedGeneration != 2 || *status.FailOpen || *status.MatchedEnginePods != 3 {
				t.Errorf("generation %d, failOpen %v, matched %d", status.ObservedGeneration, *status.FailOpen, *status.MatchedEnginePods)
			}
			checkAvailableAt(t, status.FirstAvailableAt, tt.available)
		})
	}
}

func checkAvailableAt(t *testing.T, got *metav1.Time, want string) {
	t.Helper()
	kept, fresh := metav1.NewTime(start.Add(-time.Hour).Truncate(time.Second)), metav1.NewTime(start.Truncate(time.Second))
	switch {
	case want == "nil" && got == nil, want == "kept" && kept.Equal(got), want == "fresh" && fresh.Equal(got):
	default:
		t.Errorf("firstAvailableAt is %v, want it %s", got, want)
	}
}

func TestExternal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   change
		endpoint string
		ready    string
		message  string
	}{
		{name: "accepted", change: external("LMCacheServer", " lm://h:8200 "), endpoint: "lm://h:8200", ready: "True/ExternalEndpointAccepted"},
		{name: "blank", change: external("LMCacheServer", "  "), ready: "False/ExternalEndpointMissing", message: "spec.remoteStorage.endpoint"},
		{name: "invalid", change: external("LMCacheServer", "h"), endpoint: "h", ready: "False/ExternalEndpointInvalid", message: "spec.remoteStorage.endpoint"},
		{name: "scheme of another provider", change: func(b *v1alpha1.CacheBackend) {
			external("Redis", "lm://h:1")(b)
			b.Spec.Runtime = v1alpha1.RuntimeSGLang
		}, endpoint: "lm://h:1", ready: "False/ExternalEndpointInvalid", message: "spec.remoteStorage.endpoint"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, tt.change)
			decision := s.event().pass(Observation{})
			_, reason, _ := strings.Cut(tt.ready, "/")
			wantConditions(t, decision, "Ready="+tt.ready, "Progressing=False/"+reason)
			wantEvents(t, decision)
			if decision.Status.Endpoint != tt.endpoint || decision.RequeueAfter != 0 || decision.Status.FirstKVEventObservedAt != nil {
				t.Errorf("endpoint %q, requeue after %s, latch %v", decision.Status.Endpoint, decision.RequeueAfter, decision.Status.FirstKVEventObservedAt)
			}
			if got := messageOf(t, decision, "Ready"); !strings.Contains(got, tt.message) || got != messageOf(t, decision, "Progressing") {
				t.Errorf("the messages are %q and %q", got, messageOf(t, decision, "Progressing"))
			}
		})
	}
}

func TestObservedGeneration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Observation)
		want   int64
	}{
		{name: "applied", change: func(*Observation) {}, want: 2},
		{name: "applied and gone since", change: func(o *Observation) { o.Workload = Workload{} }, want: 2},
		{name: "not applied", change: func(o *Observation) { o.Applied.Err = errors.New("timeout") }, want: 1},
		{name: "not applied and gone", change: func(o *Observation) { o.Applied.Err, o.Workload = errors.New("timeout"), Workload{} }, want: 1},
		{name: "refused", change: func(o *Observation) { o.Applied.Refused = &Refusal{Kind: "Service", Name: "cache"} }, want: 1},
		{name: "somebody else's", change: func(o *Observation) { o.Workload.Controlled = false }, want: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.pass(with(available(1), func(w *Workload) { w.Progressing.Status = corev1.ConditionTrue }))
			observation := available(1)
			tt.change(&observation)
			status := s.edit().pass(observation).Status
			if status.ObservedGeneration != tt.want || find(&status, "Ready").ObservedGeneration != tt.want {
				t.Errorf("got %d and %d, want %d", status.ObservedGeneration, find(&status, "Ready").ObservedGeneration, tt.want)
			}
		})
	}
}

// An object that was stored without defaults, or by a laxer API, gets a status too.
func TestSparseObjects(t *testing.T) {
	t.Parallel()
	for _, spec := range []v1alpha1.CacheBackendSpec{
		{},
		{Runtime: "vllm"},
		{Runtime: "VLLM", RemoteStorage: &v1alpha1.RemoteStorageSpec{Provider: "LMCacheServer", Ownership: "Managed"}},
		{Runtime: "VLLM", RemoteStorage: &v1alpha1.RemoteStorageSpec{Provider: "Mooncake", Ownership: "External"}},
		{Runtime: "SGLang", RemoteStorage: &v1alpha1.RemoteStorageSpec{}},
	} {
		s := newStory(t)
		s.backend.Spec = spec
		if decision := s.pass(available(1)); !*decision.Status.FailOpen {
			t.Errorf("%+v: status.failOpen is false", spec)
		}
	}
}
