// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestProgressing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		ready string
		want  string
	}{
		{ready: "RolloutInProgress", want: "True/RolloutInProgress"},
		{ready: "AwaitingFirstKVEvent", want: "True/AwaitingFirstKVEvent"},
		{ready: "ReplicasUnavailable", want: "False/Degraded"},
		{ready: "ScaledToZero", want: "False/ScaledToZero"},
		{ready: "WorkloadConflict", want: "False/WorkloadConflict"},
		{ready: "NoKVEventsObserved", want: "False/NoKVEventsObserved"},
		{ready: "ProbeIngestFailed", want: "False/ProbeIngestFailed"},
		{ready: "EngineKernelDegraded", want: "False/EngineKernelDegraded"},
	}
	for _, tt := range tests {
		p := &pass{now: start}
		p.setProgressing(notReady(tt.ready, "What Ready says."), "")
		got := find(&p.next, v1alpha1.ConditionProgressing)
		if string(got.Status)+"/"+got.Reason != tt.want || got.Message != "What Ready says." {
			t.Errorf("%s: %+v, want %s", tt.ready, got, tt.want)
		}
	}
	for _, reason := range []string{"BackendReady", "KVEventsObserved", "HostOnlyActive", "EventsOnlyActive"} {
		p := &pass{now: start}
		p.setProgressing(verdict{ready: true, reason: reason}, "")
		if got := find(&p.next, v1alpha1.ConditionProgressing); !is(got, metav1.ConditionFalse, "Synced") {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}

// A condition's transition time moves with its status and with nothing else.
func TestTransitionTimes(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	first := s.pass(with(available(1), func(w *Workload) { w.UpdatedReplicas = 0 })).Status
	second := s.after(time.Minute).pass(available(1)).Status
	third := s.after(time.Minute).event().pass(available(1)).Status
	since := func(status v1alpha1.CacheBackendStatus, conditionType string) time.Duration {
		return find(&status, conditionType).LastTransitionTime.Sub(start.Truncate(time.Second))
	}
	for _, tt := range []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"Ready, first", since(first, "Ready"), 0},
		{"Ready, other reason", since(second, "Ready"), 0},
		{"Ready, flipped", since(third, "Ready"), 2 * time.Minute},
		{"Progressing, other reason", since(second, "Progressing"), 0},
		{"Progressing, flipped", since(third, "Progressing"), 2 * time.Minute},
		{"Degraded, unchanged", since(third, "Degraded"), 0},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: moved at %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

// What the cluster's rules say stands in Progressing; what is a matter of the moment does
// not, since a message that differs each time is a write each time.
func TestApplyErrors(t *testing.T) {
	t.Parallel()
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	tests := []struct {
		name  string
		err   error
		shown bool
	}{
		{name: "quota", err: apierrors.NewForbidden(deployments, "cache", errors.New("exceeded quota: compute")), shown: true},
		{name: "wrapped", err: fmt.Errorf("applying: %w", apierrors.NewForbidden(deployments, "cache", errors.New("exceeded quota: compute"))), shown: true},
		{name: "validation", err: apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "exceeded quota", nil), shown: true},
		{name: "webhook", err: apierrors.NewBadRequest("exceeded quota"), shown: true},
		{name: "conflict", err: apierrors.NewConflict(deployments, "cache", errors.New("exceeded quota"))},
		{name: "transport", err: errors.New("read tcp 10.0.0.1:41234: exceeded quota")},
	}
	for _, tt := range tests {
		for name, observation := range map[string]Observation{"available": available(1), "broken": broken()} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				observation.Applied.Err = tt.err
				decision := newStory(t).event().pass(observation)
				if got := messageOf(t, decision, "Progressing"); strings.Contains(got, "exceeded quota") != tt.shown {
					t.Errorf("Progressing says %q", got)
				}
				if got := messageOf(t, decision, "Ready"); strings.Contains(got, "exceeded quota") {
					t.Errorf("Ready says %q", got)
				}
			})
		}
	}
}

// A workload that does not exist has the error in Ready, whatever it is, and once is enough.
func TestApplyErrorsWithoutAWorkload(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("exceeded quota"), apierrors.NewBadRequest("exceeded quota")} {
		decision := newStory(t).pass(Observation{Applied: Applied{Err: err}})
		wantConditions(t, decision, rollingOut...)
		ready, progressing := messageOf(t, decision, "Ready"), messageOf(t, decision, "Progressing")
		if strings.Count(ready, "exceeded quota") != 1 || ready != progressing {
			t.Errorf("%v: the messages are %q and %q", err, ready, progressing)
		}
	}
}

func TestLongTexts(t *testing.T) {
	t.Parallel()
	observation := Observation{Applied: Applied{Err: apierrors.NewBadRequest(strings.Repeat("é\xff", 40000))}}
	checkDecision(t, newStory(t).pass(observation))
	observation = broken()
	observation.Applied.Refused = &Refusal{Kind: "Service", Name: strings.Repeat("é", 2000)}
	checkDecision(t, newStory(t).pass(observation))
	labels := map[string]string{}
	for i := range 2000 {
		labels[fmt.Sprintf("key-%d", i)] = "value"
	}
	decision := newStory(t, selector(labels)).pass(Observation{Engines: Engines{PodsListed: true, DeploymentsListed: true}})
	wantEvents(t, decision, "Normal/EngineSelectorUnmatched")
	for text, want := range map[string]string{"abcdef": "abcdef", "abcdefg": "abc...", "abéefgh": "ab..."} {
		if got := cut(text, 6); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}
