// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"strings"
	"testing"
	"time"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestMatchEngines(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"b": "2", "a": "1"}
	const fresh = "spec.engineSelector.matchLabels={a:1,b:2}"
	tests := []struct {
		name    string
		labels  map[string]string
		stored  *int32
		message string
		engines Engines
		want    *int32
		// wantMessage is a part of the message.
		wantMessage string
		event       bool
		requeue     time.Duration
	}{
		{name: "no selector", stored: new(int32(3)), message: "old", engines: Engines{PodsListed: true, Pods: 3}},
		{name: "empty selector", labels: map[string]string{}, stored: new(int32(0)), message: "old"},
		{name: "pods not listed", labels: labels, stored: new(int32(3)), message: "old", engines: Engines{DeploymentsListed: true},
			want: new(int32(3)), wantMessage: "old", requeue: steadyRequeue},
		{name: "pods not listed at first", labels: labels, engines: Engines{DeploymentsListed: true}, requeue: steadyRequeue},
		{name: "some", labels: labels, stored: new(int32(0)), message: "old", engines: Engines{PodsListed: true, Pods: 3, LivePods: 3},
			want: new(int32(3)), requeue: steadyRequeue},
		{name: "none, Deployments not listed", labels: labels, stored: new(int32(0)), message: "old", engines: Engines{PodsListed: true},
			want: new(int32(0)), wantMessage: "old", requeue: steadyRequeue},
		{name: "none any more, Deployments not listed", labels: labels, stored: new(int32(2)), engines: Engines{PodsListed: true},
			want: new(int32(0)), requeue: steadyRequeue},
		{name: "none any more, Deployments not listed, a message left", labels: labels, stored: new(int32(2)), message: "old",
			engines: Engines{PodsListed: true}, want: new(int32(0)), wantMessage: "old", requeue: steadyRequeue},
		{name: "none, no Deployment", labels: labels, engines: Engines{PodsListed: true, DeploymentsListed: true},
			want: new(int32(0)), wantMessage: fresh, event: true, requeue: steadyRequeue},
		{name: "none any more", labels: labels, stored: new(int32(2)), engines: Engines{PodsListed: true, DeploymentsListed: true},
			want: new(int32(0)), wantMessage: fresh, event: true, requeue: steadyRequeue},
		{name: "none any more, a message left", labels: labels, stored: new(int32(2)), message: "old",
			engines: Engines{PodsListed: true, DeploymentsListed: true}, want: new(int32(0)), wantMessage: fresh, event: true, requeue: steadyRequeue},
		{name: "none, without a message before", labels: labels, stored: new(int32(0)), engines: Engines{PodsListed: true, DeploymentsListed: true},
			want: new(int32(0)), wantMessage: fresh, event: true, requeue: steadyRequeue},
		{name: "none, as before", labels: labels, stored: new(int32(0)), message: "of another selector",
			engines: Engines{PodsListed: true, DeploymentsListed: true}, want: new(int32(0)), wantMessage: fresh, requeue: steadyRequeue},
		{name: "none, Deployments that ask for some", labels: labels,
			engines: Engines{PodsListed: true, DeploymentsListed: true, Deployments: 2, DesiredReplicas: 1},
			want:    new(int32(0)), wantMessage: "no Pods in namespace match", event: true, requeue: churnRequeue},
		{name: "none, Deployments at zero", labels: labels, stored: new(int32(0)), message: "old",
			engines: Engines{PodsListed: true, DeploymentsListed: true, Deployments: 1}, want: new(int32(0)), requeue: steadyRequeue},
		{name: "as many as asked for, and one that failed", labels: labels,
			engines: Engines{PodsListed: true, Pods: 3, LivePods: 2, DeploymentsListed: true, Deployments: 1, DesiredReplicas: 2},
			want:    new(int32(3)), requeue: steadyRequeue},
		{name: "one too few", labels: labels,
			engines: Engines{PodsListed: true, Pods: 1, LivePods: 1, DeploymentsListed: true, Deployments: 1, DesiredReplicas: 2},
			want:    new(int32(1)), requeue: churnRequeue},
		{name: "one too many", labels: labels,
			engines: Engines{PodsListed: true, Pods: 1, LivePods: 1, DeploymentsListed: true, Deployments: 1},
			want:    new(int32(1)), requeue: churnRequeue},
		{name: "pods not listed, Deployments that ask for some", labels: labels, stored: new(int32(2)),
			engines: Engines{DeploymentsListed: true, Deployments: 1, DesiredReplicas: 2}, want: new(int32(2)), requeue: steadyRequeue},
		{name: "Deployments not listed", labels: labels,
			engines: Engines{PodsListed: true, Pods: 1, LivePods: 1, Deployments: 1, DesiredReplicas: 2}, want: new(int32(1)), requeue: steadyRequeue},
		{name: "pods of no Deployment", labels: labels,
			engines: Engines{PodsListed: true, Pods: 1, LivePods: 1, DeploymentsListed: true}, want: new(int32(1)), requeue: steadyRequeue},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// An unmanaged backend has nothing else to say.
			s := newStory(t, hiCache)
			if tt.labels != nil {
				selector(tt.labels)(s.backend)
			}
			s.backend.Status.MatchedEnginePods, s.backend.Status.EngineSelectorMessage = tt.stored, tt.message
			decision := s.pass(Observation{Engines: tt.engines})
			status := decision.Status
			if (status.MatchedEnginePods == nil) != (tt.want == nil) || (tt.want != nil && *status.MatchedEnginePods != *tt.want) {
				t.Errorf("matched %v, want %v", status.MatchedEnginePods, tt.want)
			}
			if (status.EngineSelectorMessage == "") != (tt.wantMessage == "") || !strings.Contains(status.EngineSelectorMessage, tt.wantMessage) {
				t.Errorf("the message is %q, want %q in it", status.EngineSelectorMessage, tt.wantMessage)
			}
			if tt.event {
				wantEvents(t, decision, "Normal/"+v1alpha1.EventEngineSelectorUnmatched)
			} else {
				wantEvents(t, decision)
			}
			if decision.RequeueAfter != tt.requeue {
				t.Errorf("requeue after %s, want %s", decision.RequeueAfter, tt.requeue)
			}
		})
	}
}
