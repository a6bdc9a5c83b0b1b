// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestRequeue(t *testing.T) {
	t.Parallel()
	selected := selector(map[string]string{"a": "1"})
	churning := Engines{PodsListed: true, Pods: 1, LivePods: 1, DeploymentsListed: true, Deployments: 1, DesiredReplicas: 2}
	crashing := func(backend *v1alpha1.CacheBackend) {
		backend.Status.Conditions = []metav1.Condition{{Type: "EngineCompatibility", Status: "False",
			Reason: "InjectedEngineCrashLooping", Message: "engine", LastTransitionTime: metav1.NewTime(start.Truncate(time.Second))}}
	}
	// The time counts from the whole second.
	const fraction = 250 * time.Millisecond
	tests := []struct {
		name    string
		changes []change
		engines Engines
		want    time.Duration
	}{
		{name: "managed", want: 30 * time.Second},
		{name: "managed, opted out", changes: []change{optedOut}, want: 30 * time.Second},
		{name: "managed, short timeout", changes: []change{timeout(10 * time.Second)}, want: 10*time.Second - fraction},
		{name: "managed, churn", changes: []change{selected}, engines: churning, want: 5 * time.Second},
		{name: "managed, churn without a selector", engines: churning, want: 30 * time.Second},
		{name: "host-only", changes: []change{hostOnly}, want: 5*time.Minute - fraction},
		{name: "host-only, opted out", changes: []change{hostOnly, optedOut}},
		{name: "host-only, opted out, an engine crashing", changes: []change{hostOnly, optedOut, crashing}, want: 30 * time.Second},
		{name: "host-only, selector", changes: []change{hostOnly, selected}, want: 30 * time.Second},
		{name: "events only", changes: []change{eventsOnly}, want: 5*time.Minute - fraction},
		{name: "events only, opted out, an engine that crashed", changes: []change{eventsOnly, optedOut, crashing}},
		{name: "events only, churn", changes: []change{eventsOnly, optedOut, selected}, engines: churning, want: 5 * time.Second},
		{name: "events only, short timeout in churn", changes: []change{eventsOnly, selected, timeout(2 * time.Second)}, engines: churning, want: 2*time.Second - fraction},
		{name: "external", changes: []change{external("LMCacheServer", "h:1")}},
		{name: "external, selector", changes: []change{external("LMCacheServer", "h:1"), selected}, want: 30 * time.Second},
		{name: "external, empty selector", changes: []change{external("LMCacheServer", "h:1"), selector(map[string]string{})}},
		{name: "unmanaged", changes: []change{hiCache}},
		{name: "unmanaged, churn", changes: []change{hiCache, selected}, engines: churning, want: 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			observation := available(1)
			observation.Engines = tt.engines
			if got := newStory(t, tt.changes...).pass(observation).RequeueAfter; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
