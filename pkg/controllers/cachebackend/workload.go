// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"bytes"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// defaultDeadline is how long a rollout may take where the workload does not say.
const defaultDeadline = 10 * time.Minute

// FromDeployment reads a live Deployment of the backend with the given uid. The pods are
// left to the caller.
func FromDeployment(deployment *appsv1.Deployment, backend types.UID) Workload {
	status := &deployment.Status
	workload := Workload{
		Exists:             true,
		Controlled:         controlledBy(deployment, backend),
		Generation:         deployment.Generation,
		ObservedGeneration: status.ObservedGeneration,
		DesiredReplicas:    replicasOrOne(deployment.Spec.Replicas),
		Replicas:           status.Replicas,
		UpdatedReplicas:    status.UpdatedReplicas,
		AvailableReplicas:  status.AvailableReplicas,
		ReadyReplicas:      status.ReadyReplicas,
		Deadline:           defaultDeadline,
	}
	if seconds := deployment.Spec.ProgressDeadlineSeconds; seconds != nil {
		workload.Deadline = time.Duration(*seconds) * time.Second
	}
	for _, condition := range status.Conditions {
		if condition.Type == appsv1.DeploymentProgressing {
			workload.Progressing = &Progress{Status: condition.Status, Reason: condition.Reason}
		}
	}
	return workload
}

// FromStatefulSet reads a live StatefulSet of the backend with the given uid. The pods are
// left to the caller. The object must have its managedFields, which a cache may be told to
// drop: they tell when the spec changed.
func FromStatefulSet(set *appsv1.StatefulSet, backend types.UID) Workload {
	status := &set.Status
	return Workload{
		Exists:             true,
		Controlled:         controlledBy(set, backend),
		Generation:         set.Generation,
		ObservedGeneration: status.ObservedGeneration,
		DesiredReplicas:    replicasOrOne(set.Spec.Replicas),
		Replicas:           status.Replicas,
		UpdatedReplicas:    status.UpdatedReplicas,
		AvailableReplicas:  status.AvailableReplicas,
		ReadyReplicas:      status.ReadyReplicas,
		CurrentRevision:    status.CurrentRevision,
		UpdateRevision:     status.UpdateRevision,
		SpecChangedAt:      specChangedAt(set),
		Deadline:           defaultDeadline,
	}
}

// specChangedAt is the time of the last write that changed the spec, through whichever
// endpoint: an autoscaler writes to the scale subresource. A write of metadata alone by
// somebody who also owns a part of the spec counts too, which only makes the deadline
// later; writes of the status own nothing of the spec. Without managedFields nothing is known, and the creation says nothing about it.
func specChangedAt(object metav1.Object) time.Time {
	var changed time.Time
	for _, entry := range object.GetManagedFields() {
		if entry.Time == nil || entry.FieldsV1 == nil {
			continue
		}
		if bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:spec"`)) && entry.Time.After(changed) {
			changed = entry.Time.Time
		}
	}
	return changed
}

func controlledBy(object metav1.Object, backend types.UID) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.UID == backend
}

func replicasOrOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
