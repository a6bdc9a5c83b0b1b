// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestReadKernelCheck(t *testing.T) {
	t.Parallel()
	ended := func(code int32, reason, message string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
	}
	for _, tt := range []struct {
		name          string
		strict        string
		current, last *corev1.ContainerStateTerminated
		want          KernelCheck
	}{
		{name: "pending", want: KernelCheck{Outcome: KernelsPending}},
		{name: "ok", current: ended(0, "Completed", " OK\n"), want: KernelCheck{Outcome: KernelsLoad, Message: "OK", Reason: "Completed"}},
		{name: "ok with an exit code", current: ended(1, "Error", "OK"), want: KernelCheck{Outcome: KernelsUnknown, Message: "OK", ExitCode: 1, Reason: "Error"}},
		{name: "ok and more", current: ended(0, "Completed", "OK then"), want: KernelCheck{Outcome: KernelsUnknown, Message: "OK then", Reason: "Completed"}},
		{name: "fail", current: ended(0, "Completed", "FAIL: no libcudart"), want: KernelCheck{Outcome: KernelsFail, Message: "FAIL: no libcudart", Reason: "Completed"}},
		{name: "fail before", strict: "1", last: ended(1, "Error", "FAIL: x"),
			want: KernelCheck{Outcome: KernelsFail, Strict: true, Message: "FAIL: x", ExitCode: 1, Reason: "Error"}},
		{name: "ok after fail", strict: "1", current: ended(0, "Completed", "OK"), last: ended(1, "Error", "FAIL: x"),
			want: KernelCheck{Outcome: KernelsLoad, Strict: true, Message: "OK", Reason: "Completed"}},
		{name: "killed", strict: "true", current: ended(137, "OOMKilled", ""), want: KernelCheck{Outcome: KernelsUnknown, ExitCode: 137, Reason: "OOMKilled"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{}
			pod.Spec.InitContainers = []corev1.Container{{Name: "other"}, {
				Name: "lmcache-kernel-check", Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "KERNEL_CHECK_STRICT", Value: tt.strict}},
			}}
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: "other", State: corev1.ContainerState{Terminated: ended(0, "Completed", "OK")}},
				{Name: "lmcache-kernel-check", State: corev1.ContainerState{Terminated: tt.current}, LastTerminationState: corev1.ContainerState{Terminated: tt.last}},
			}
			got, found := readKernelCheck(pod)
			if diff := cmp.Diff(tt.want, got); diff != "" || !found {
				t.Errorf("found: %t (-want +got):\n%s", found, diff)
			}
		})
	}
	if _, found := readKernelCheck(newPod("p", func(pod *corev1.Pod) { pod.Spec.Containers = []corev1.Container{{Name: "lmcache-kernel-check"}} })); found {
		t.Error("a container that is no init container is a kernel check")
	}
}

func TestKernels(t *testing.T) {
	t.Parallel()
	load, pending := KernelCheck{Outcome: KernelsLoad}, KernelCheck{Outcome: KernelsPending}
	fail := KernelCheck{Pod: "eng-2", Outcome: KernelsFail, Message: "FAIL: no libcudart\nTraceback"}
	strict := KernelCheck{Outcome: KernelsFail, Strict: true, Message: "FAIL: " + strings.Repeat("x", 3500)}
	killed := KernelCheck{Outcome: KernelsUnknown, ExitCode: 137, Reason: "OOMKilled"}
	for _, tt := range []struct {
		name   string
		checks []KernelCheck
		// want is EngineKernelsHealthy, says a part of its message.
		want, says string
		blocks     bool
	}{
		{name: "none"},
		{name: "all load", checks: []KernelCheck{load, load}, want: "True/KernelsHealthy", says: "2 of 2"},
		{name: "one has not ended", checks: []KernelCheck{load, pending}, want: "Unknown/KernelCheckPending", says: "1 of 2"},
		{name: "one was killed", checks: []KernelCheck{load, pending, killed}, want: "Unknown/KernelCheckError", says: "exit 137 OOMKilled"},
		{name: "one fails", checks: []KernelCheck{killed, load, fail, fail}, want: "False/KernelLoadFailed", says: "2 of 4 engine pods, eng-2 among them: FAIL: no libcudart"},
		{name: "one fails, another blocks", checks: []KernelCheck{fail, strict}, want: "False/KernelLoadFailed", says: "2 of 2", blocks: true},
		{name: "strict and loads", checks: []KernelCheck{{Outcome: KernelsLoad, Strict: true}, fail}, want: "False/KernelLoadFailed", says: "1 of 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, observation := range map[string]Observation{"serving": available(1), "down": broken()} {
				s := newStory(t).event()
				observation.Wired = Wired{Listed: true, Kernels: tt.checks}
				decision := s.pass(observation)
				got := ""
				if condition := find(&decision.Status, v1alpha1.ConditionEngineKernelsHealthy); condition != nil {
					got = string(condition.Status) + "/" + condition.Reason
					if !strings.Contains(condition.Message, tt.says) || strings.Contains(condition.Message, "Traceback") || len(condition.Message) > 512 {
						t.Errorf("%s: EngineKernelsHealthy says %q", name, condition.Message)
					}
				}
				if got != tt.want {
					t.Errorf("%s: %q, want %q", name, got, tt.want)
				}
				wantReason(t, decision, tt.blocks, map[string]string{"serving": "KVEventsObserved", "down": "ReplicasUnavailable"}[name])
			}
		})
	}
}

// wantReason checks Ready and what follows from it, and that Degraded is not touched.
func wantReason(t *testing.T, decision Decision, blocked bool, otherwise string) {
	t.Helper()
	ready := find(&decision.Status, v1alpha1.ConditionReady)
	progressing := find(&decision.Status, v1alpha1.ConditionProgressing)
	if !blocked {
		if ready.Reason != otherwise {
			t.Errorf("Ready is %s/%s, want the reason %s", ready.Status, ready.Reason, otherwise)
		}
		return
	}
	if !is(ready, metav1.ConditionFalse, v1alpha1.ReasonEngineKernelDegraded) || !is(progressing, metav1.ConditionFalse, v1alpha1.ReasonEngineKernelDegraded) {
		t.Errorf("%v", published(&decision.Status))
	}
	for _, part := range []string{"GPU", "report-only", "FAIL:"} {
		if !strings.Contains(ready.Message, part) {
			t.Errorf("Ready says %q, without %q", ready.Message, part)
		}
	}
	if degraded := find(&decision.Status, v1alpha1.ConditionDegraded); degraded.Reason == v1alpha1.ReasonEngineKernelDegraded {
		t.Errorf("%v", published(&decision.Status))
	}
}

// TestStoryStrictKernels: a list that fails keeps what was known, the downgrade included.
func TestStoryStrictKernels(t *testing.T) {
	t.Parallel()
	s := newStory(t, hostOnly)
	failing := Observation{Wired: Wired{Listed: true, Kernels: []KernelCheck{{Outcome: KernelsFail, Strict: true, Message: "FAIL: x"}}}}
	blocked := []string{"Ready=False/EngineKernelDegraded", "Progressing=False/EngineKernelDegraded", "Degraded=False/NotDegraded",
		"EngineKernelsHealthy=False/KernelLoadFailed"}
	wantConditions(t, s.pass(failing), blocked...)
	wantConditions(t, s.pass(Observation{}), blocked...)
	decision := s.pass(Observation{Wired: Wired{Listed: true, Kernels: []KernelCheck{{Outcome: KernelsPending, Strict: true}}}})
	wantConditions(t, decision, append([]string{"EngineKernelsHealthy=Unknown/KernelCheckPending"}, awaiting...)...)
	wantEvents(t, decision, "Normal/AwaitingFirstKVEvent")
	wantConditions(t, s.pass(Observation{}), append([]string{"EngineKernelsHealthy=Unknown/KernelCheckPending"}, awaiting...)...)
	wantConditions(t, s.pass(Observation{Wired: Wired{Listed: true}}), awaiting...)
}

// TestStoryKernelsMaskNothing: what happens to Degraded behind a strict failure is told as
// it would be without one.
func TestStoryKernelsMaskNothing(t *testing.T) {
	t.Parallel()
	s := newStory(t, timeout(time.Minute))
	failing := available(1)
	failing.Wired = Wired{Listed: true, Kernels: []KernelCheck{{Outcome: KernelsFail, Strict: true, Message: "FAIL: x"}}}
	s.pass(failing)
	decision := s.after(time.Minute).pass(failing)
	wantConditions(t, decision, "Ready=False/EngineKernelDegraded", "Progressing=False/EngineKernelDegraded", "Degraded=True/NoKVEventsObserved",
		"EngineKernelsHealthy=False/KernelLoadFailed")
	wantEvents(t, decision, "Warning/NoKVEventsObserved")
	timeout(time.Hour)(s.backend)
	decision = s.pass(failing)
	if !is(find(&decision.Status, v1alpha1.ConditionDegraded), metav1.ConditionTrue, v1alpha1.ReasonNoKVEventsObserved) {
		t.Errorf("a longer timeout takes the verdict back: %v", published(&decision.Status))
	}
	wantEvents(t, decision)
	wantEvents(t, s.event().pass(failing), "Normal/KVEventsObserved")
}
