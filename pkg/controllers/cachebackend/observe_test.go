// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
)

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns1", Name: name, Labels: storage.SelectorLabels("cache"), CreationTimestamp: metav1.NewTime(start),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cache-1", UID: "R", Controller: new(true)}},
	}}
	pod.Status.StartTime = new(metav1.NewTime(start))
	change(pod)
	return pod
}

// readySince gives a pod a Ready condition that changed some time after its start.
func readySince(status corev1.ConditionStatus, after time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(start.Add(after)),
		}}
	}
}

func TestUnreadyPods(t *testing.T) {
	t.Parallel()
	var pods []corev1.Pod
	for _, pod := range []*corev1.Pod{
		newPod("ready", readySince(corev1.ConditionTrue, time.Minute)),
		newPod("starting", readySince(corev1.ConditionFalse, time.Second)),
		newPod("broken", readySince(corev1.ConditionFalse, time.Minute)),
		newPod("pending", func(pod *corev1.Pod) { pod.Status.StartTime = nil }),
		newPod("ended", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }),
		newPod("going", func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(start)) }),
		newPod("former", func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "StatefulSet" }),
		newPod("nobodys", func(pod *corev1.Pod) { pod.OwnerReferences = nil }),
	} {
		pods = append(pods, *pod)
	}
	tier := &tier{deployment: &appsv1.Deployment{}}
	got, listed := tier.unreadyPods(pods, 1)
	created := pods[0].CreationTimestamp.Time
	want := []UnreadyPod{{CreatedAt: created}, {CreatedAt: created, WasReady: true}, {CreatedAt: created}}
	if diff := cmp.Diff(want, got); diff != "" || !listed {
		t.Errorf("listed: %t (-want +got):\n%s", listed, diff)
	}
	if _, listed := tier.unreadyPods(pods, 0); listed {
		t.Error("a list that is ahead of the workload's status counts as listed")
	}
}

func TestObserveEngines(t *testing.T) {
	t.Parallel()
	engines := map[string]string{"serve": "atlas"}
	labelled := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels, pod.Status.Phase = engines, phase }
	}
	deployment := func(name string, labels map[string]string, replicas *int32) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: name}}
		d.Spec.Template.Labels, d.Spec.Replicas = labels, replicas
		return d
	}
	r := newRig(t, newPod("a", labelled(corev1.PodRunning)), newPod("b", labelled(corev1.PodFailed)),
		newPod("c", func(*corev1.Pod) {}), newPod("d", func(pod *corev1.Pod) { pod.Namespace, pod.Labels = "ns2", engines }),
		deployment("two", map[string]string{"serve": "atlas", "more": "x"}, new(int32(2))),
		deployment("one", engines, nil), deployment("none", map[string]string{"serve": "other"}, new(int32(9))))

	backend := newBackend(hiCache, selector(engines))
	observe := func() Engines { return r.observe(t.Context(), backend, nil, r.viewPods(t.Context(), backend)).Engines }
	want := Engines{PodsListed: true, Pods: 2, LivePods: 1, DeploymentsListed: true, Deployments: 2, DesiredReplicas: 3}
	if diff := cmp.Diff(want, observe()); diff != "" {
		t.Errorf("engines (-want +got):\n%s", diff)
	}
	r.fail = func(verb string, _ any) error {
		if verb == "list" {
			return errors.New("too many requests")
		}
		return nil
	}
	if diff := cmp.Diff(Engines{}, observe()); diff != "" {
		t.Errorf("engines that could not be listed (-want +got):\n%s", diff)
	}
}
