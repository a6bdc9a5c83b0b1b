// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func controlled(controller bool) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: "cache", Generation: 4,
		OwnerReferences: []metav1.OwnerReference{{Kind: "CacheBackend", Name: "cache", UID: "other"},
			{Kind: "CacheBackend", Name: "cache", UID: "U", Controller: &controller}},
	}
}

func TestFromDeployment(t *testing.T) {
	t.Parallel()
	deployment := &appsv1.Deployment{
		ObjectMeta: controlled(true),
		Spec:       appsv1.DeploymentSpec{ProgressDeadlineSeconds: new(int32(90))},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 3, Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 3, AvailableReplicas: 2,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: "False", Reason: "MinimumReplicasUnavailable"},
				{Type: appsv1.DeploymentProgressing, Status: "True", Reason: "ReplicaSetUpdated"},
			},
		},
	}
	want := Workload{
		Exists: true, Controlled: true, Generation: 4, ObservedGeneration: 3, DesiredReplicas: 1,
		Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 3, AvailableReplicas: 2,
		Progressing: &Progress{Status: "True", Reason: "ReplicaSetUpdated"}, Deadline: 90 * time.Second,
	}
	if diff := cmp.Diff(want, FromDeployment(deployment, "U")); diff != "" {
		t.Errorf("workload (-want +got):\n%s", diff)
	}
	// An owner is not a controller, and a namesake is not the backend.
	if FromDeployment(deployment, "other").Controlled {
		t.Error("controlled by an owner that is no controller")
	}
	deployment.ObjectMeta = controlled(false)
	deployment.Spec.ProgressDeadlineSeconds = nil
	if got := FromDeployment(deployment, "U"); got.Controlled || got.Deadline != 10*time.Minute {
		t.Errorf("%+v", got)
	}
}

func TestFromStatefulSet(t *testing.T) {
	t.Parallel()
	entry := func(subresource, fields string, age time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: "m", Subresource: subresource, Time: new(metav1.NewTime(start.Add(-age))), FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const spec, status, labels = `{"f:spec":{"f:replicas":{}}}`, `{"f:status":{"f:replicas":{}}}`, `{"f:metadata":{"f:labels":{}}}`
	tests := []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		want    time.Time
	}{
		{name: "unknown"},
		{name: "created", entries: []metav1.ManagedFieldsEntry{entry("", spec, time.Hour)}, want: start.Add(-time.Hour)},
		{name: "status and labels written since", entries: []metav1.ManagedFieldsEntry{
			entry("", spec, time.Hour), entry("status", status, 0), entry("", labels, time.Minute)}, want: start.Add(-time.Hour)},
		{name: "scaled since", entries: []metav1.ManagedFieldsEntry{entry("scale", spec, time.Minute), entry("", spec, time.Hour)},
			want: start.Add(-time.Minute)},
		{name: "no time", entries: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(spec)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := &appsv1.StatefulSet{
				ObjectMeta: controlled(true),
				Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(2))},
				Status: appsv1.StatefulSetStatus{
					ObservedGeneration: 3, Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 3, AvailableReplicas: 2,
					CurrentRevision: "r1", UpdateRevision: "r2",
				},
			}
			set.CreationTimestamp = metav1.NewTime(start.Add(-24 * time.Hour))
			set.ManagedFields = tt.entries
			want := Workload{
				Exists: true, Controlled: true, Generation: 4, ObservedGeneration: 3, DesiredReplicas: 2,
				Replicas: 5, UpdatedReplicas: 4, ReadyReplicas: 3, AvailableReplicas: 2,
				CurrentRevision: "r1", UpdateRevision: "r2", SpecChangedAt: tt.want, Deadline: 10 * time.Minute,
			}
			if diff := cmp.Diff(want, FromStatefulSet(set, "U")); diff != "" {
				t.Errorf("workload (-want +got):\n%s", diff)
			}
		})
	}
}
