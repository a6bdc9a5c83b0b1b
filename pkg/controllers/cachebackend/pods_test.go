// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// enginePod is a pod that was wired to the backend of a rig, and checks its kernels.
func enginePod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	return newPod(name, func(pod *corev1.Pod) {
		pod.UID = types.UID(name)
		pod.Labels = map[string]string{"serve": "atlas"}
		pod.Annotations = map[string]string{v1alpha1.AnnotationInjectedBy: "ns1/cache", v1alpha1.AnnotationInjectedByUID: "U"}
		pod.Spec.InitContainers = []corev1.Container{{Name: "lmcache-kernel-check"}}
		pod.Spec.Containers = []corev1.Container{{Name: "vllm"}}
		for _, change := range changes {
			change(pod)
		}
	})
}

func crashes(pod *corev1.Pod) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "vllm", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: crashLoopBackOff}},
	}}
}

func unselected(pod *corev1.Pod) { pod.Labels = nil }

func wiredElsewhere(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationInjectedByUID] = "V" }

// TestObserveWired: kernels are those of pods that are selected and wired, crash loops
// those of every pod that is wired.
func TestObserveWired(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginePod("a", crashes), enginePod("b", unselected, crashes), enginePod("c", wiredElsewhere, crashes),
		enginePod("d", crashes, func(pod *corev1.Pod) { pod.Annotations = nil }), enginePod("e"),
		enginePod("f", func(pod *corev1.Pod) { pod.Spec.InitContainers = nil }))
	for name, change := range map[string]change{"managed": func(*v1alpha1.CacheBackend) {}, "host only": hostOnly} {
		backend := newBackend(change, selector(map[string]string{"serve": "atlas"}))
		wired := r.observe(t.Context(), backend, nil).Wired
		var crashing []string
		for _, loop := range wired.CrashLooping {
			crashing = append(crashing, loop.Pod)
		}
		if len(wired.Kernels) != 2 || !slices.Equal(crashing, []string{"a", "b"}) || !wired.Listed {
			t.Errorf("%s: %d kernel checks, crashing %v, listed: %t", name, len(wired.Kernels), crashing, wired.Listed)
		}
		backend.Spec.EngineSelector = nil
		if wired := r.observe(t.Context(), backend, nil).Wired; len(wired.Kernels) != 0 || len(wired.CrashLooping) != 2 {
			t.Errorf("%s without a selector: %+v", name, wired)
		}
	}
	r.fail = failing[*corev1.PodList]("list", errRefused)
	if r.observe(t.Context(), newBackend(), nil).Wired.Listed {
		t.Error("a list that failed counts as listed")
	}
}

// TestCrashLoopIsToldOnce: a container that flaps is one story, and a list that fails does
// not end it.
func TestCrashLoopIsToldOnce(t *testing.T) {
	t.Parallel()
	pod := enginePod("eng-1", crashes)
	r := newRig(t, newBackend(hostOnly, optedOut), pod)
	told := func() (reasons []string) {
		r.Helper()
		r.wantPass()
		for {
			select {
			case event := <-r.events.Events:
				reasons = append(reasons, event)
			default:
				return reasons
			}
		}
	}
	set := func(change func(*corev1.Pod)) {
		r.Helper()
		pod.Status.ContainerStatuses = nil
		change(pod)
		if err := r.client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if events := told(); len(events) != 1 {
		t.Fatalf("told %v", events)
	}
	recovered := func(*corev1.Pod) {}
	for range 2 {
		set(recovered)
		told()
		if condition := find(&r.backend().Status, v1alpha1.ConditionEngineCompatibility); condition != nil {
			t.Fatalf("%+v", condition)
		}
		set(crashes)
		if events := told(); len(events) != 0 {
			t.Errorf("told again: %v", events)
		}
		r.fail = failing[*corev1.PodList]("list", errRefused)
		told()
		r.fail = func(string, any) error { return nil }
	}
	if err := r.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	told()
	if len(r.memories.of(r.backend()).announced) != 0 {
		t.Error("a pod that is gone is remembered")
	}
}
