// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestReadCrashLoop(t *testing.T) {
	t.Parallel()
	waiting := func(name, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	running := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	for _, tt := range []struct {
		name     string
		statuses []corev1.ContainerStatus
		want     string
	}{
		{"running", []corev1.ContainerStatus{running("vllm"), running("proxy")}, ""},
		{"crashing", []corev1.ContainerStatus{running("proxy"), waiting("vllm", "CrashLoopBackOff")}, "vllm"},
		{"no image", []corev1.ContainerStatus{waiting("vllm", "ImagePullBackOff")}, ""},
		{"crashing sidecar", []corev1.ContainerStatus{running("vllm"), waiting("proxy", "CrashLoopBackOff")}, ""},
		{"lone container of another name", []corev1.ContainerStatus{waiting("llm", "CrashLoopBackOff")}, "llm"},
		{"lone container beside the subscriber", []corev1.ContainerStatus{waiting("llm", "CrashLoopBackOff"), running("kvevent-subscriber")}, "llm"},
		{"crashing subscriber", []corev1.ContainerStatus{running("llm"), waiting("kvevent-subscriber", "CrashLoopBackOff")}, ""},
		{"nobody knows which", []corev1.ContainerStatus{waiting("a", "CrashLoopBackOff"), waiting("b", "CrashLoopBackOff")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "eng-1", UID: "E"}}
			for _, status := range tt.statuses {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: status.Name})
			}
			pod.Status.ContainerStatuses = tt.statuses
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{waiting("vllm", "CrashLoopBackOff")}
			loop, found := readCrashLoop(pod, "vllm")
			if found != (tt.want != "") || loop.Container != tt.want {
				t.Errorf("%+v, found: %t; want the container %q", loop, found, tt.want)
			}
		})
	}
}

func TestStoryCrashLoop(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{"managed": func(*v1alpha1.CacheBackend) {}, "host only": hostOnly} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, change).event()
			crashing := func(loops ...CrashLoop) Observation {
				observation := available(1)
				observation.Wired = Wired{Listed: true, CrashLooping: loops}
				return observation
			}
			first := CrashLoop{Pod: "eng-1", UID: "E1", Container: "vllm"}
			known := CrashLoop{Pod: "eng-1", UID: "E1", Container: "vllm", Announced: true}
			second := CrashLoop{Pod: "eng-2", UID: "E2", Container: "vllm"}
			wantEvents(t, s.pass(crashing()), "Normal/KVEventsObserved")

			decision := s.pass(crashing(first, second))
			wantConditions(t, decision, append([]string{"EngineCompatibility=False/InjectedEngineCrashLooping"}, working...)...)
			wantEvents(t, decision, "Warning/InjectedEngineCrashLooping")
			for _, part := range []string{"vllm", "eng-1 and 1 more", "not a proven cause", "spec.integration.mode: EventsOnly", "skip-inject"} {
				if got := messageOf(t, decision, "EngineCompatibility"); !strings.Contains(got, part) {
					t.Errorf("EngineCompatibility says %q, without %q", got, part)
				}
			}
			if decision.RequeueAfter != steadyRequeue {
				t.Errorf("requeue after %s", decision.RequeueAfter)
			}
			wantEvents(t, s.pass(crashing(second)))
			unlisted := available(1)
			wantConditions(t, s.pass(unlisted), append([]string{"EngineCompatibility=False/InjectedEngineCrashLooping"}, working...)...)
			wantConditions(t, s.pass(crashing()), working...)
			// One that has only seemed to recover is no news.
			decision = s.pass(crashing(known))
			wantConditions(t, decision, append([]string{"EngineCompatibility=False/InjectedEngineCrashLooping"}, working...)...)
			wantEvents(t, decision)
			s.pass(crashing())
			wantEvents(t, s.pass(crashing(known, second)), "Warning/InjectedEngineCrashLooping")
		})
	}
}
