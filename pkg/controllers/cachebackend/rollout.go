// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Reasons of a Deployment's Progressing condition. Kubernetes keeps them in a package of
// its controllers that nobody else should link.
const (
	newReplicaSetAvailable   = "NewReplicaSetAvailable"
	progressDeadlineExceeded = "ProgressDeadlineExceeded"
)

// rollout is what decides how far a managed workload is.
type rollout struct {
	kind     v1alpha1.DeploymentKind
	name     string
	applied  Applied
	workload Workload
	// want is the number of replicas that make the backend ready.
	want int32
	// everAvailable says that the backend's workload has been available before.
	everAvailable bool
	// stuck says that the backend was last reported as short of replicas.
	stuck bool
	now   time.Time
}

// judge says whether the workload serves, on the kinds' common terms; the first case that
// holds counts. A rollout, a first start included, is no degradation: only what is past its
// deadline or had been serving is stuck.
func (r rollout) judge() verdict {
	w := r.workload
	refused := r.refused()
	switch {
	case refused != nil && refused.Going:
		return notReady(v1alpha1.ReasonWorkloadConflict,
			"The %s %s is not this backend's and is being deleted; nothing is to be done but to wait until it is gone.",
			refused.Kind, refused.Name)
	case refused != nil:
		return notReady(v1alpha1.ReasonWorkloadConflict,
			"The %s %s is not this backend's and is left as it is; delete it, or create the backend under another name.",
			refused.Kind, refused.Name)
	case !w.Exists:
		return notReady(v1alpha1.ReasonRolloutInProgress, "0/%d replicas updated: the %s does not exist%s.",
			r.want, r.kind, because(r.applied.Err))
	case r.want == 0:
		return notReady(v1alpha1.ReasonScaledToZero, "The backend is scaled to zero.")
	case r.complete():
		return verdict{ready: true, reason: v1alpha1.ReasonBackendReady,
			message: fmt.Sprintf("%d/%d replicas available.", w.AvailableReplicas, r.want)}
	case r.overdue():
		return notReady(v1alpha1.ReasonReplicasUnavailable, "%d/%d replicas available, and %s; check its pods.",
			w.AvailableReplicas, r.want, r.deadlinePassed())
	case !r.observed() || w.UpdatedReplicas < r.want || w.Replicas > w.UpdatedReplicas || r.rolling():
		return notReady(v1alpha1.ReasonRolloutInProgress, "%d/%d replicas updated.", w.UpdatedReplicas, r.want)
	case r.starting():
		return notReady(v1alpha1.ReasonRolloutInProgress, "%d/%d replicas available.", w.AvailableReplicas, r.want)
	default:
		return notReady(v1alpha1.ReasonReplicasUnavailable, "%d/%d replicas available; check the pods of the %s.",
			w.AvailableReplicas, r.want, r.kind)
	}
}

// refused is the object that stands in the way. The workload is looked at again after the
// writes, because it may have become somebody else's in between.
func (r rollout) refused() *Refusal {
	if r.applied.Refused != nil {
		return r.applied.Refused
	}
	if r.workload.Exists && !r.workload.Controlled {
		return &Refusal{Kind: string(r.kind), Name: r.name}
	}
	return nil
}

// observed says whether the workload's status is about its present spec.
func (r rollout) observed() bool {
	return r.workload.ObservedGeneration >= r.workload.Generation
}

// complete does without the workload's own word for it. Pods of an older template must be
// gone: while one is left, it may be the only one that serves.
func (r rollout) complete() bool {
	w := r.workload
	return r.observed() && w.UpdatedReplicas >= r.want && w.AvailableReplicas >= r.want &&
		w.Replicas <= w.UpdatedReplicas
}

func (r rollout) overdue() bool {
	w := r.workload
	if r.kind == v1alpha1.DeploymentKindStatefulSet {
		return !w.SpecChangedAt.IsZero() && r.now.Sub(w.SpecChangedAt) >= w.Deadline
	}
	return w.Progressing != nil && w.Progressing.Status == corev1.ConditionFalse && w.Progressing.Reason == progressDeadlineExceeded
}

func (r rollout) deadlinePassed() string {
	if r.kind == v1alpha1.DeploymentKindStatefulSet {
		return fmt.Sprintf("the deadline of %s since the StatefulSet was last changed has passed", r.workload.Deadline)
	}
	return "the progress deadline of the Deployment has passed"
}

// rolling says whether the workload's own controller is at work on its template. A
// StatefulSet has the same revision twice from the start, so its first start is known by
// the backend never having been available.
func (r rollout) rolling() bool {
	w := r.workload
	if r.kind == v1alpha1.DeploymentKindStatefulSet {
		return w.UpdateRevision != w.CurrentRevision || !r.everAvailable
	}
	return w.Progressing != nil && w.Progressing.Status == corev1.ConditionTrue && w.Progressing.Reason != newReplicaSetAvailable
}

// starting says whether all that is missing is pods that have just been created, as after
// a scale-up. When the pods could not be listed, nothing is newly declared stuck.
func (r rollout) starting() bool {
	w := r.workload
	if !w.PodsListed {
		return !r.stuck
	}
	var young int32
	for _, pod := range w.UnreadyPods {
		if !pod.WasReady && r.now.Sub(pod.CreatedAt) < w.Deadline {
			young++
		}
	}
	return young >= r.want-w.AvailableReplicas
}

// wantedReplicas is the number of replicas that make the backend ready.
func wantedReplicas(replicas storage.Replicas, workload Workload) int32 {
	if !workload.Exists {
		return replicas.OnCreate()
	}
	return replicas.Want(&workload.DesiredReplicas)
}

// stuck says whether a status reports a workload that is stuck without enough replicas.
func stuck(status *v1alpha1.CacheBackendStatus) bool {
	return is(find(status, v1alpha1.ConditionDegraded), metav1.ConditionTrue, v1alpha1.ReasonReplicasUnavailable)
}
