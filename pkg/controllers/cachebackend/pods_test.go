// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		wired := r.observe(t.Context(), backend, nil, r.viewPods(t.Context(), backend)).Wired
		var crashing []string
		for _, loop := range wired.CrashLooping {
			crashing = append(crashing, loop.Pod)
		}
		if len(wired.Kernels) != 2 || !slices.Equal(crashing, []string{"a", "b"}) || !wired.Listed {
			t.Errorf("%s: %d kernel checks, crashing %v, listed: %t", name, len(wired.Kernels), crashing, wired.Listed)
		}
		backend.Spec.EngineSelector = nil
		if wired := r.observe(t.Context(), backend, nil, r.viewPods(t.Context(), backend)).Wired; len(wired.Kernels) != 0 || len(wired.CrashLooping) != 2 {
			t.Errorf("%s without a selector: %+v", name, wired)
		}
	}
	r.fail = failing[*corev1.PodList]("list", errRefused)
	backend := newBackend()
	if r.observe(t.Context(), backend, nil, r.viewPods(t.Context(), backend)).Wired.Listed {
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
		r.heal()
	}
	// A process that starts while the condition stands takes it for told.
	r.memories.byName = nil
	told()
	set(recovered)
	told()
	set(crashes)
	if events := told(); len(events) != 0 {
		t.Errorf("told again by another process: %v", events)
	}
	if err := r.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	told()
	if len(r.memories.of(r.backend()).announced) != 0 {
		t.Error("a pod that is gone is remembered")
	}
}

// TestPodsComeInPages: what is on a later page counts as well, and without one nothing does.
func TestPodsComeInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginePod("a", crashes), enginePod("b"), enginePod("c", crashes))
	r.live = pagedReader{r.live}
	backend := newBackend(selector(map[string]string{"serve": "atlas"}))
	view := r.viewPods(t.Context(), backend)
	if view.err != nil || view.pods != 3 || len(view.kernels) != 3 || len(view.crashLooping) != 2 {
		t.Errorf("%+v", view)
	}
	pages := 0
	r.fail = func(_ string, object any) error {
		if _, ok := object.(*corev1.PodList); ok {
			if pages++; pages == 2 {
				return errRefused
			}
		}
		return nil
	}
	if view := r.viewPods(t.Context(), backend); view.err == nil || view.pods != 0 || len(view.crashLooping) != 0 {
		t.Errorf("%+v", view)
	}
}

// pagedReader lists pods one by one.
type pagedReader struct{ client.Reader }

func (p pagedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := p.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	if pods, ok := list.(*corev1.PodList); ok {
		asked := (&client.ListOptions{}).ApplyOptions(options).Continue
		i, _ := strconv.Atoi(asked) // The first page is asked for without.
		if i+1 < len(pods.Items) {
			pods.Continue = strconv.Itoa(i + 1)
		}
		pods.Items = pods.Items[i : i+1]
	}
	return nil
}
