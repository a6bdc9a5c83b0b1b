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
// What cannot be listed is left unknown.
func (r *Reconciler) observe(ctx context.Context, backend *v1alpha1.CacheBackend, t *tier, view *podView) Observation {
	var observation Observation
	listed := view.err == nil
	if t != nil {
		observation.Applied = t.applied
		observation.Replicas = t.replicas
		observation.Endpoint = storage.Endpoint(t.service, backend.UID)
		observation.Workload = t.workload(backend)
		if w := &observation.Workload; listed {
			w.UnreadyPods, w.PodsListed = t.unreadyPods(view.ownPods, w.ReadyReplicas)
		}
	}
	memory := r.memories.of(backend)
	observation.Probe.Enabled = r.prober != nil
	if observation.Probe.Enabled {
		observation.Probe.Answer = memory.probe.latest(backend)
	}
	observation.Wired = Wired{Listed: listed, Kernels: view.kernels, CrashLooping: view.crashLooping}
	if listed {
		memory.seen(backend, view)
	}
	observation.Engines = Engines{PodsListed: listed, Pods: view.pods, LivePods: view.livePods}
	if view.selected != nil {
		if err := r.observeDeployments(ctx, backend.Namespace, view.selected, &observation.Engines); err != nil {
			log.FromContext(ctx).Error(err, "Could not list the Deployments of engines", "namespace", klog.KRef("", backend.Namespace))
		}
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

// unreadyPods are the pods of the workload that are not Ready. It returns false when more
// are Ready than the workload has counted: its status is behind the list then, and the two
// together would tell of pods that are missing.
func (t *tier) unreadyPods(pods []corev1.Pod, counted int32) ([]UnreadyPod, bool) {
	var unready []UnreadyPod
	var ready int32
	for i := range pods {
		pod := &pods[i]
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

// observeDeployments counts the Deployments whose pods are selected.
func (r *Reconciler) observeDeployments(ctx context.Context, namespace string, selected labels.Selector, engines *Engines) error {
	var deployments appsv1.DeploymentList
	if err := r.live.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return err
	}
	engines.DeploymentsListed = true
	for i := range deployments.Items {
		spec := &deployments.Items[i].Spec
		if selected.Matches(labels.Set(spec.Template.Labels)) {
			engines.Deployments++
			engines.DesiredReplicas += replicasOrOne(spec.Replicas)
		}
	}
	return nil
}
