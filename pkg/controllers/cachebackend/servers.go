// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// serverWorkload is a live workload, and how to tell its pods.
type serverWorkload struct {
	Workload
	kind       v1alpha1.DeploymentKind
	uid        types.UID
	containers []corev1.Container
}

// observeServers reads which pods of the tier serve. The workload is read anew, since the
// cache may be behind the pods. An error says that nothing is known.
func (r *Reconciler) observeServers(ctx context.Context, backend *v1alpha1.CacheBackend, pods []corev1.Pod) (Servers, error) {
	servers := Servers{Present: sets.New[types.UID]()}
	workload, err := r.serverWorkload(ctx, backend)
	if err != nil || workload == nil {
		return servers, err
	}
	ours := map[types.UID]bool{}
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || ended(pod) {
			continue
		}
		servers.Present.Insert(pod.UID)
		if ready, _ := readiness(pod); !ready || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		belongs, err := r.belongs(ctx, pod, workload, ours)
		if err != nil {
			return Servers{}, err
		}
		if belongs {
			servers.Ready = append(servers.Ready, Server{Name: pod.Name, UID: pod.UID, Restarts: restarts(pod, workload.containers)})
		}
	}
	servers.Converged = workload.ObservedGeneration >= workload.Generation &&
		workload.ReadyReplicas == workload.DesiredReplicas && workload.UpdatedReplicas == workload.DesiredReplicas &&
		int(workload.DesiredReplicas) == len(servers.Ready)
	return servers, nil
}

// serverWorkload returns the backend's workload, nil when it has none of its own.
func (r *Reconciler) serverWorkload(ctx context.Context, backend *v1alpha1.CacheBackend) (*serverWorkload, error) {
	kind := workloadKind(backend)
	if kind == v1alpha1.DeploymentKindStatefulSet {
		set, found, err := statefulSets.find(ctx, r.live, backend)
		if err != nil || !found || !controlledBy(set, backend.UID) {
			return nil, err
		}
		return &serverWorkload{FromStatefulSet(set, backend.UID), kind, set.UID, set.Spec.Template.Spec.Containers}, nil
	}
	deployment, found, err := deployments.find(ctx, r.live, backend)
	if err != nil || !found || !controlledBy(deployment, backend.UID) {
		return nil, err
	}
	return &serverWorkload{FromDeployment(deployment, backend.UID), kind, deployment.UID, deployment.Spec.Template.Spec.Containers}, nil
}

// belongs says whether a pod is the workload's, by way of a ReplicaSet if that is a
// Deployment. What is known of ReplicaSets is kept in ours.
func (r *Reconciler) belongs(ctx context.Context, pod *corev1.Pod, workload *serverWorkload, ours map[types.UID]bool) (bool, error) {
	if workload.kind == v1alpha1.DeploymentKindStatefulSet {
		owner := controllerOf(pod, string(workload.kind))
		return owner != nil && owner.UID == workload.uid, nil
	}
	owner := controllerOf(pod, "ReplicaSet")
	if owner == nil {
		return false, nil
	}
	if known, found := ours[owner.UID]; found {
		return known, nil
	}
	deployment, err := r.deploymentOf(ctx, pod.Namespace, *owner)
	if err != nil {
		return false, err
	}
	ours[owner.UID] = deployment != nil && deployment.UID == workload.uid
	return ours[owner.UID], nil
}

// restarts counts the restarts of the server's own containers. Those that others have added
// to the pod are no reason to restart engines.
func restarts(pod *corev1.Pod, own []corev1.Container) int64 {
	names := sets.New[string]()
	for _, container := range own {
		names.Insert(container.Name)
	}
	var sum int64
	for _, status := range pod.Status.ContainerStatuses {
		if names.Has(status.Name) {
			sum += int64(status.RestartCount)
		}
	}
	return sum
}
