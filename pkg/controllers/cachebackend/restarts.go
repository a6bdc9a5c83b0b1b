// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// cascadeReason is the only reason for which engines are restarted.
const cascadeReason = "server_instance_changed"

// followServers restarts the engines of a backend when the servers that they are connected
// to were replaced. Whatever goes wrong leaves the baseline as it was, so that it is tried
// again.
func (r *Reconciler) followServers(ctx context.Context, backend *v1alpha1.CacheBackend, view *podView) Restart {
	logger := log.FromContext(ctx)
	if view.err != nil {
		return Restart{}
	}
	servers, err := r.observeServers(ctx, backend, view.ownPods)
	if err != nil {
		logger.Error(err, "Could not tell which servers of the tier are up")
		return Restart{}
	}
	memory := &r.memories.of(backend).restarts
	if memory.baseline == nil {
		// Another process may have stored a baseline that the cache does not show yet.
		if memory.baseline, err = r.publishedBaseline(ctx, backend); err != nil {
			logger.Error(err, "Could not tell which servers the engines are connected to")
			return Restart{}
		}
	}
	baseline, current := *memory.baseline, instance(servers.Ready)
	decision := memory.decide(baseline, servers, r.clock.Now())
	switch decision.step {
	case keep:
		return Restart{Known: true, ServerInstance: baseline, Wait: decision.wait}
	case cascade:
		if err := r.restartEngines(ctx, backend, view.replicaSets, decision.trigger); err != nil {
			logger.Error(err, "Could not restart the engines of a cache server that was replaced")
			return Restart{Known: true, ServerInstance: baseline, Wait: cascadeWindow}
		}
		restartCascades.WithLabelValues(backend.Namespace, backend.Name, cascadeReason).Inc()
	}
	memory.baseline = &current
	return Restart{Known: true, ServerInstance: current}
}

// publishedBaseline reads the baseline from the API server.
func (r *Reconciler) publishedBaseline(ctx context.Context, backend *v1alpha1.CacheBackend) (*string, error) {
	live := &v1alpha1.CacheBackend{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(backend), live); err != nil {
		return nil, fmt.Errorf("reading the backend: %w", err)
	}
	return &live.Status.ObservedServerInstance, nil
}

// restartEngines rolls the Deployments that the ReplicaSets of engine pods belong to.
func (r *Reconciler) restartEngines(ctx context.Context, backend *v1alpha1.CacheBackend, replicaSets map[types.UID]metav1.OwnerReference, trigger trigger) error {
	targets := map[string]types.UID{}
	for _, owner := range replicaSets {
		deployment, err := r.deploymentOf(ctx, backend.Namespace, owner)
		if err != nil {
			return err
		}
		if deployment != nil {
			targets[deployment.Name] = deployment.UID
		}
	}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if err := r.restartDeployment(ctx, backend, name, targets[name], trigger); err != nil {
			return err
		}
	}
	return nil
}

// deploymentOf returns the Deployment that controls a ReplicaSet, nil when there is none or
// the ReplicaSet is another one by now.
func (r *Reconciler) deploymentOf(ctx context.Context, namespace string, owner metav1.OwnerReference) (*metav1.OwnerReference, error) {
	replicaSet := &metav1.PartialObjectMetadata{}
	replicaSet.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, replicaSet)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ReplicaSet %s: %w", owner.Name, err)
	}
	if replicaSet.UID != owner.UID {
		return nil, nil
	}
	return controllerOf(replicaSet, "Deployment"), nil
}

// restartDeployment does what kubectl rollout restart does, under a name of its own. The
// trigger makes it happen once for each set of servers.
func (r *Reconciler) restartDeployment(ctx context.Context, backend *v1alpha1.CacheBackend, name string, uid types.UID, trigger trigger) error {
	deployment := &appsv1.Deployment{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: backend.Namespace, Name: name}, deployment)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Deployment %s: %w", name, err)
	}
	value, due := trigger.value(deployment.Spec.Template.Annotations[v1alpha1.AnnotationCacheServerRestartTrigger])
	if !due || deployment.UID != uid || controlledBy(deployment, backend.UID) {
		return nil
	}
	patch := client.MergeFromWithOptions(deployment.DeepCopy(), client.MergeFromWithOptimisticLock{})
	metav1.SetMetaDataAnnotation(&deployment.Spec.Template.ObjectMeta, v1alpha1.AnnotationCacheServerRestartTrigger, value)
	if err := r.client.Patch(ctx, deployment, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("restarting Deployment %s: %w", name, err)
	}
	log.FromContext(ctx).Info("Restarted engines, since their cache server was replaced", "deployment", name)
	return nil
}

// controllerOf returns the owner that controls an object if it is of a kind of apps/v1.
func controllerOf(object metav1.Object, kind string) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.APIVersion != appsv1.SchemeGroupVersion.String() || owner.Kind != kind {
		return nil
	}
	return owner
}
