// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// newRollout is the rollout of an available workload with two replicas.
func newRollout(kind v1alpha1.DeploymentKind) rollout {
	return rollout{
		kind: kind, name: "cache", workload: available(2).Workload, want: 2, everAvailable: true,
		now: start.Add(time.Minute),
	}
}

const (
	deployment = v1alpha1.DeploymentKindDeployment
	replicated = v1alpha1.DeploymentKindStatefulSet
)

func TestRollout(t *testing.T) {
	t.Parallel()
	young := UnreadyPod{CreatedAt: start.Add(30 * time.Second)}
	old := UnreadyPod{CreatedAt: start.Add(time.Minute - defaultDeadline)}
	lost := UnreadyPod{CreatedAt: start.Add(30 * time.Second), WasReady: true}
	updating := &Progress{Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated"}
	exceeded := &Progress{Status: corev1.ConditionFalse, Reason: progressDeadlineExceeded}
	tests := []struct {
		name    string
		kinds   []v1alpha1.DeploymentKind
		change  func(*rollout)
		want    string
		message []string
	}{
		{name: "workload refused", change: func(r *rollout) {
			r.applied.Refused = &Refusal{Kind: "Deployment", Name: "cache"}
			r.workload = Workload{}
		}, want: "WorkloadConflict", message: []string{"Deployment cache"}},
		{name: "workload refused that is going", change: func(r *rollout) {
			r.applied.Refused = &Refusal{Kind: "Deployment", Name: "cache", Going: true}
		}, want: "WorkloadConflict", message: []string{"Deployment cache", "being deleted"}},
		{name: "Service refused beside an available workload", change: func(r *rollout) {
			r.applied.Refused = &Refusal{Kind: "Service", Name: "cache"}
		}, want: "WorkloadConflict", message: []string{"Service cache"}},
		{name: "autoscaler refused at zero", change: func(r *rollout) {
			r.want, r.applied.Refused = 0, &Refusal{Kind: "HorizontalPodAutoscaler", Name: "cache"}
		}, want: "WorkloadConflict", message: []string{"HorizontalPodAutoscaler cache"}},
		{name: "somebody else's since the writes", kinds: []v1alpha1.DeploymentKind{replicated}, change: func(r *rollout) {
			r.workload.Controlled = false
		}, want: "WorkloadConflict", message: []string{"StatefulSet cache"}},
		{name: "gone, and cannot be made", change: func(r *rollout) {
			r.workload, r.applied.Err = Workload{}, errors.New("exceeded quota")
		}, want: "RolloutInProgress", message: []string{"0/2", "updated", "exceeded quota"}},
		{name: "gone", change: func(r *rollout) { r.workload = Workload{} }, want: "RolloutInProgress", message: []string{"0/2"}},
		{name: "gone at zero", change: func(r *rollout) { r.workload, r.want = Workload{}, 0 }, want: "RolloutInProgress", message: []string{"0/0"}},
		{name: "scaled to zero", change: func(r *rollout) { r.want = 0 }, want: "ScaledToZero", message: []string{"scaled to zero"}},
		{name: "scaled to zero before the workload knows", change: func(r *rollout) { r.want, r.workload.Generation = 0, 2 },
			want: "ScaledToZero"},
		{name: "complete", change: func(*rollout) {}, want: "BackendReady", message: []string{"2/2", "available"}},
		{name: "complete with more than wanted", change: func(r *rollout) { r.want = 1 }, want: "BackendReady", message: []string{"2/1"}},
		{name: "complete whatever the workload says", kinds: []v1alpha1.DeploymentKind{deployment},
			change: func(r *rollout) { r.workload.Progressing = updating }, want: "BackendReady"},
		{name: "complete before it was ever available", change: func(r *rollout) { r.everAvailable = false }, want: "BackendReady"},
		{name: "complete despite a deadline", kinds: []v1alpha1.DeploymentKind{deployment},
			change: func(r *rollout) { r.workload.Progressing = exceeded }, want: "BackendReady"},
		{name: "deadline exceeded", kinds: []v1alpha1.DeploymentKind{deployment}, change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.Progressing = 1, exceeded
		}, want: "ReplicasUnavailable", message: []string{"1/2", "available", "deadline"}},
		{name: "deadline exceeded with a pod too few", kinds: []v1alpha1.DeploymentKind{deployment}, change: func(r *rollout) {
			r.workload.UpdatedReplicas, r.workload.Progressing = 1, exceeded
		}, want: "ReplicasUnavailable", message: []string{"deadline"}},
		{name: "another failure than the deadline", kinds: []v1alpha1.DeploymentKind{deployment}, change: func(r *rollout) {
			r.workload.UpdatedReplicas, r.workload.Progressing = 1, &Progress{Status: corev1.ConditionFalse, Reason: "ReplicaSetCreateError"}
		}, want: "RolloutInProgress"},
		{name: "ten minutes after the change", kinds: []v1alpha1.DeploymentKind{replicated}, change: func(r *rollout) {
			r.workload.UpdatedReplicas, r.now = 1, start.Add(10*time.Minute)
		}, want: "ReplicasUnavailable", message: []string{"2/2", "deadline", "10m0s"}},
		{name: "just before", kinds: []v1alpha1.DeploymentKind{replicated}, change: func(r *rollout) {
			r.workload.UpdatedReplicas, r.now = 1, start.Add(10*time.Minute-time.Nanosecond)
		}, want: "RolloutInProgress"},
		{name: "nobody knows when it changed", kinds: []v1alpha1.DeploymentKind{replicated}, change: func(r *rollout) {
			r.workload.UpdatedReplicas, r.workload.SpecChangedAt, r.now = 1, time.Time{}, start.Add(time.Hour)
		}, want: "RolloutInProgress"},
		{name: "not observed", change: func(r *rollout) { r.workload.Generation = 2 }, want: "RolloutInProgress", message: []string{"2/2", "updated"}},
		{name: "not all updated", change: func(r *rollout) { r.workload.UpdatedReplicas = 1 }, want: "RolloutInProgress", message: []string{"1/2"}},
		{name: "surge: enough are updated and an old pod is left", change: func(r *rollout) { r.workload.Replicas = 3 },
			want: "RolloutInProgress", message: []string{"2/2", "updated"}},
		{name: "surge whose new pods broke", change: func(r *rollout) {
			r.workload.Replicas, r.workload.AvailableReplicas, r.workload.UnreadyPods = 3, 1, []UnreadyPod{lost, lost}
		}, want: "RolloutInProgress", message: []string{"2/2", "updated"}},
		{name: "first start", kinds: []v1alpha1.DeploymentKind{deployment}, change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.Progressing = 0, &Progress{Status: corev1.ConditionTrue, Reason: "NewReplicaSetCreated"}
		}, want: "RolloutInProgress", message: []string{"2/2", "updated"}},
		{name: "first start", kinds: []v1alpha1.DeploymentKind{replicated}, change: func(r *rollout) {
			r.workload.AvailableReplicas, r.everAvailable = 0, false
		}, want: "RolloutInProgress", message: []string{"2/2", "updated"}},
		{name: "revisions differ", kinds: []v1alpha1.DeploymentKind{replicated}, change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.UpdateRevision = 1, "r2"
		}, want: "RolloutInProgress"},
		{name: "no condition yet", kinds: []v1alpha1.DeploymentKind{deployment}, change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.Progressing = 1, nil
		}, want: "ReplicasUnavailable"},
		{name: "scale-up", change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.UnreadyPods = 1, []UnreadyPod{young}
		}, want: "RolloutInProgress", message: []string{"1/2", "available"}},
		{name: "scale-up whose pod is too old", change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.UnreadyPods = 1, []UnreadyPod{old}
		}, want: "ReplicasUnavailable", message: []string{"1/2", "available"}},
		{name: "scale-up beside an outage", change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.UnreadyPods = 0, []UnreadyPod{young, lost}
		}, want: "ReplicasUnavailable", message: []string{"0/2"}},
		{name: "outage", change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.UnreadyPods = 1, []UnreadyPod{lost}
		}, want: "ReplicasUnavailable"},
		{name: "outage or scale-up, not known", change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.PodsListed = 1, false
		}, want: "RolloutInProgress"},
		{name: "not known, and stuck before", change: func(r *rollout) {
			r.workload.AvailableReplicas, r.workload.PodsListed, r.stuck = 1, false, true
		}, want: "ReplicasUnavailable"},
	}
	for _, tt := range tests {
		kinds := tt.kinds
		if kinds == nil {
			kinds = []v1alpha1.DeploymentKind{deployment, replicated}
		}
		for _, kind := range kinds {
			t.Run(string(kind)+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				r := newRollout(kind)
				tt.change(&r)
				got := r.judge()
				if got.reason != tt.want || got.ready != (tt.want == v1alpha1.ReasonBackendReady) {
					t.Errorf("got %+v, want %s", got, tt.want)
				}
				for _, text := range tt.message {
					if !strings.Contains(got.message, text) {
						t.Errorf("the message %q does not have %q", got.message, text)
					}
				}
			})
		}
	}
}

func TestWantedReplicas(t *testing.T) {
	t.Parallel()
	autoscaled := func(floor *int32) change {
		return func(backend *v1alpha1.CacheBackend) {
			backend.Spec.Autoscaling = &v1alpha1.AutoscalingSpec{MinReplicas: floor, MaxReplicas: 6}
		}
	}
	replicas := func(replicas *int32) change {
		return func(backend *v1alpha1.CacheBackend) { backend.Spec.Replicas = replicas }
	}
	sglang := func(backend *v1alpha1.CacheBackend) { backend.Spec.Runtime = v1alpha1.RuntimeSGLang }
	live := available(5).Workload
	tests := []struct {
		name     string
		changes  []change
		workload Workload
		want     int32
	}{
		{name: "not said", changes: []change{replicas(nil)}, workload: live, want: 1},
		{name: "as said", changes: []change{replicas(new(int32(3)))}, workload: live, want: 3},
		{name: "zero", changes: []change{replicas(new(int32(0)))}, workload: live, want: 0},
		{name: "autoscaled", changes: []change{autoscaled(new(int32(3)))}, workload: live, want: 5},
		{name: "autoscaled before there is a workload", changes: []change{autoscaled(new(int32(3)))}, want: 3},
		{name: "autoscaled without a floor", changes: []change{autoscaled(nil), replicas(new(int32(4)))}, want: 1},
		{name: "Mooncake", changes: []change{managed("Mooncake"), replicas(new(int32(3)))}, workload: live, want: 1},
		{name: "Mooncake autoscaled", changes: []change{managed("Mooncake"), autoscaled(new(int32(3)))}, workload: live, want: 1},
		{name: "Mooncake at zero", changes: []change{managed("Mooncake"), replicas(new(int32(0)))}, workload: live, want: 0},
		{name: "Redis for SGLang", changes: []change{sglang, managed("Redis"), replicas(new(int32(3)))}, workload: live, want: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rendered, err := render(newBackend(tt.changes...))
			if err != nil {
				t.Fatal(err)
			}
			if got := wantedReplicas(rendered.Replicas, tt.workload); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
