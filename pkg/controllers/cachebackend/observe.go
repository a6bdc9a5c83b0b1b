// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// observe completes what a pass knows. The tier is nil for a backend without one of ours.
// Pods and the Deployments of engines are not in the cache, since a cluster has too many;
// what cannot be listed is left unknown.
func (r *Reconciler) observe(ctx context.Context, backend *v1alpha1.CacheBackend, t *tier) Observation {
	var observation Observation
	if t != nil {
		observation.Applied = t.applied
		observation.Replicas = t.replicas
		observation.Endpoint = storage.Endpoint(t.service, backend.UID)
		observation.Workload = t.workload(backend)
		if w := &observation.Workload; w.Exists && w.AvailableReplicas < wantedReplicas(t.replicas, *w) {
			w.UnreadyPods, w.PodsListed = r.unreadyPods(ctx, backend, t, w.ReadyReplicas)
		}
	}
	if selected := selectorLabels(backend); len(selected) != 0 {
		observation.Engines = r.observeEngines(ctx, backend.Namespace, selected)
	}
	return observation
}

func (t *tier) workload(backend *v1alpha1.CacheBackend) Workload {
	switch {
	case t.deployment != nil:
		return FromDeployment(t.deployment, backend.UID)
	case t.statefulSet != nil:
		return FromStatefulSet(t.statefulSet, backend.UID)
	default:
		return Workload{}
	}
}

// unreadyPods lists the pods of the workload that are not Ready. It returns false when they
// could not be listed, and when more are Ready than the workload has counted: its status is
// behind the list then, and the two together would tell of pods that are missing.
func (r *Reconciler) unreadyPods(ctx context.Context, backend *v1alpha1.CacheBackend, t *tier, counted int32) ([]UnreadyPod, bool) {
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(backend.Namespace),
		client.MatchingLabels(storage.SelectorLabels(backend.Name))); err != nil {
		log.FromContext(ctx).Error(err, "Could not list the pods of the workload")
		return nil, false
	}
	var unready []UnreadyPod
	var ready int32
	for i := range pods.Items {
		pod := &pods.Items[i]
		if t.runs(pod) && pod.DeletionTimestamp.IsZero() && !ended(pod) {
			if isReady, was := readiness(pod); isReady {
				ready++
			} else {
				unready = append(unready, UnreadyPod{CreatedAt: pod.CreationTimestamp.Time, WasReady: was})
			}
		}
	}
	if ready > counted {
		return nil, false
	}
	return unready, true
}

// runs leaves out the pods of a workload of the former kind. Between a Deployment and its
// pods is a ReplicaSet, which is not worth reading: the pods carry the backend's labels.
func (t *tier) runs(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return false
	}
	if t.statefulSet != nil {
		return controller.UID == t.statefulSet.UID
	}
	return controller.Kind == "ReplicaSet"
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// neverReadySlack is how far apart a kubelet may note that it has seen a pod and that the
// pod is not Ready. No pod of ours is Ready so soon.
const neverReadySlack = 2 * time.Second

// readiness says whether a pod is Ready, and whether one that is not was so before: then
// the condition has changed since the kubelet first set it.
func readiness(pod *corev1.Pod) (ready, was bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type != corev1.PodReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			return true, true
		}
		started := pod.Status.StartTime
		return false, started != nil && condition.LastTransitionTime.Sub(started.Time) > neverReadySlack
	}
	return false, false
}

func (r *Reconciler) observeEngines(ctx context.Context, namespace string, selected map[string]string) Engines {
	var engines Engines
	logger := log.FromContext(ctx)

	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(selected)); err != nil {
		logger.Error(err, "Could not list the engine pods")
	} else {
		engines.PodsListed = true
		for i := range pods.Items {
			engines.Pods++
			if !ended(&pods.Items[i]) {
				engines.LivePods++
			}
		}
	}

	var deployments appsv1.DeploymentList
	if err := r.live.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		logger.Error(err, "Could not list the Deployments of engines", "namespace", klog.KRef("", namespace))
		return engines
	}
	engines.DeploymentsListed = true
	selector := labels.SelectorFromSet(selected)
	for i := range deployments.Items {
		spec := &deployments.Items[i].Spec
		if selector.Matches(labels.Set(spec.Template.Labels)) {
			engines.Deployments++
			engines.DesiredReplicas += replicasOrOne(spec.Replicas)
		}
	}
	return engines
}
