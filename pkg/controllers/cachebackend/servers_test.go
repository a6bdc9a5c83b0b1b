// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// serverPod is a pod of a Deployment that serves.
func serverPod(changes ...func(*corev1.Pod)) corev1.Pod {
	pod := newPod("server", readySince(corev1.ConditionTrue, time.Minute))
	pod.UID, pod.Status.Phase = "A", corev1.PodRunning
	pod.OwnerReferences = controlledByNamed("ReplicaSet", "server-1", "S")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "lmcache-server", RestartCount: 2}, {Name: "istio-proxy", RestartCount: 7}}
	for _, change := range changes {
		change(pod)
	}
	return *pod
}

// workloads are a Deployment and a StatefulSet of the backend, and what may lie between them and a pod.
func workloads() []client.Object {
	meta := func(name string, uid types.UID, owner ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns1", Name: name, UID: uid, Generation: 1, OwnerReferences: owner}
	}
	ours := metav1.OwnerReference{Kind: "CacheBackend", Name: "cache", UID: "U", Controller: new(true)}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "lmcache-server"}}}}
	deployment := &appsv1.Deployment{ObjectMeta: meta("cache", "D", ours), Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Template: template}}
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, UpdatedReplicas: 1, ReadyReplicas: 1}
	return []client.Object{
		deployment,
		&appsv1.StatefulSet{ObjectMeta: meta("cache", "T", ours), Spec: appsv1.StatefulSetSpec{Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: meta("server-1", "S", controlledByNamed("Deployment", "cache", "D")...)},
		&appsv1.ReplicaSet{ObjectMeta: meta("other-1", "O", controlledByNamed("Deployment", "cache", "D0")...)},
	}
}

func TestWhichPodsServe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		kind    v1alpha1.DeploymentKind
		change  func(*corev1.Pod)
		ready   string
		present bool
	}{
		{name: "Ready", ready: "A:2", present: true},
		{name: "not Ready", change: readySince(corev1.ConditionFalse, time.Minute), present: true},
		{name: "Ready and pending", change: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }, present: true},
		{name: "Ready and being deleted", change: func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(start)) }},
		{name: "Ready and ended", change: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }},
		{name: "nobody's", change: func(pod *corev1.Pod) { pod.OwnerReferences = nil }, present: true},
		{name: "of a StatefulSet beside it", change: func(pod *corev1.Pod) { pod.OwnerReferences = controlledByNamed("StatefulSet", "cache", "D") }, present: true},
		{name: "of a ReplicaSet that was made anew", change: func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "S0" }, present: true},
		{name: "of a ReplicaSet that is gone", change: func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "server-0" }, present: true},
		{name: "of another Deployment", change: func(pod *corev1.Pod) { pod.OwnerReferences = controlledByNamed("ReplicaSet", "other-1", "O") }, present: true},
		{name: "of the StatefulSet", kind: "StatefulSet", change: func(pod *corev1.Pod) { pod.OwnerReferences = controlledByNamed("StatefulSet", "cache", "T") },
			ready: "A:2", present: true},
		{name: "of a StatefulSet that was made anew", kind: "StatefulSet",
			change: func(pod *corev1.Pod) { pod.OwnerReferences = controlledByNamed("StatefulSet", "cache", "T0") }, present: true},
		{name: "of a Deployment beside the StatefulSet", kind: "StatefulSet", present: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.change == nil {
				tt.change = func(*corev1.Pod) {}
			}
			r := newRig(t, workloads()...)
			backend := newBackend()
			if tt.kind != "" {
				statefulSet(backend)
			}
			got, err := r.observeServers(t.Context(), backend, []corev1.Pod{serverPod(tt.change)})
			if err != nil || instance(got.Ready) != tt.ready || got.Present.Has("A") != tt.present {
				t.Errorf("%+v, %v; want %q, present: %t", got, err, tt.ready, tt.present)
			}
		})
	}
}

func TestConverged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"at rest":                {func(*appsv1.Deployment) {}, true},
		"one replica by default": {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, true},
		"not observed":           {func(d *appsv1.Deployment) { d.Generation = 2 }, false},
		"one not updated":        {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }, false},
		"one not ready":          {func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 }, false},
		"one too many":           {func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 2 }, false},
		"more wanted than there are pods": {func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status.ReadyReplicas, d.Status.UpdatedReplicas = new(int32(2)), 2, 2
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := workloads()
			tt.change(objects[0].(*appsv1.Deployment))
			got, err := newRig(t, objects...).observeServers(t.Context(), newBackend(), []corev1.Pod{serverPod()})
			if err != nil || got.Converged != tt.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestServersOfSomebodyElse: without a workload of its own a backend has no servers.
func TestServersOfSomebodyElse(t *testing.T) {
	t.Parallel()
	for _, uid := range []types.UID{"V", ""} {
		objects := workloads()
		for _, object := range objects[:2] {
			object.SetOwnerReferences([]metav1.OwnerReference{{Kind: "CacheBackend", Name: "cache", UID: uid, Controller: new(uid != "")}})
		}
		r := newRig(t, objects...)
		for _, backend := range []change{func(*v1alpha1.CacheBackend) {}, statefulSet} {
			got, err := r.observeServers(t.Context(), newBackend(backend), []corev1.Pod{serverPod(), serverPod(func(pod *corev1.Pod) {
				pod.OwnerReferences = controlledByNamed("StatefulSet", "cache", "T")
			})})
			if err != nil || len(got.Ready) != 0 || got.Converged {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
}
