// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// attempts bounds how often a write is decided anew on a fresh read.
const attempts = 3

// tier is what a pass has of a managed backend's own objects after its writes. An object
// that does not exist is nil.
type tier struct {
	deployment  *appsv1.Deployment
	statefulSet *appsv1.StatefulSet
	service     *corev1.Service

	replicas storage.Replicas
	applied  Applied
}

// waiting is the error of a write that has to wait for the end of an object. That end is an
// event, so it is nothing to be tried again.
type waiting struct{ kind string }

func (w waiting) Error() string { return "the former " + w.kind + " is not gone yet" }

// record keeps the first error and the first refusal. It returns the error of a read, which
// ends the pass.
func (t *tier) record(err error) error {
	var refused refusal
	switch {
	case err == nil:
	case errors.As(err, &unreadable{}):
		return err
	case errors.As(err, &refused):
		if t.applied.Refused == nil {
			t.applied.Refused = &refused.Refusal
		}
	case t.applied.Err == nil:
		t.applied.Err = err
	}
	return nil
}

// apply brings a managed backend's objects to the desired state. How the writes ended is in
// the tier; an error is about the pass.
func (r *Reconciler) apply(ctx context.Context, backend *v1alpha1.CacheBackend) (*tier, error) {
	rendered, err := render(backend)
	if err != nil {
		return nil, fmt.Errorf("rendering the tier: %w", err)
	}
	t := &tier{replicas: rendered.Replicas}
	workloadErr := r.applyWorkload(ctx, backend, rendered, t)
	if err := t.record(workloadErr); err != nil {
		return nil, err
	}
	if workloadErr != nil {
		// The address stands on its own: it is read even when nothing is behind it.
		service, found, err := services.current(ctx, r, backend)
		if found && service.DeletionTimestamp.IsZero() {
			t.service = service
		}
		return t, err
	}
	t.service, err = bring(ctx, r, services, backend, rendered.Service, func(live *corev1.Service) (*corev1.Service, []string) {
		return storage.MutateService(live, rendered)
	})
	if err := t.record(err); err != nil {
		return nil, err
	}
	return t, t.record(r.applyAutoscaler(ctx, backend, rendered))
}

// applyWorkload replaces a workload of the other kind: the new one is there before the old
// one goes, unless there must never be two.
func (r *Reconciler) applyWorkload(ctx context.Context, backend *v1alpha1.CacheBackend, rendered *storage.Rendered, t *tier) error {
	alone := singleton(backend)
	if alone {
		// What serves must not go for something that cannot come.
		if err := r.claimWorkload(ctx, backend); err != nil {
			return err
		}
		gone, err := r.shedOtherKind(ctx, backend, metav1.DeletePropagationForeground)
		if err != nil {
			return err
		}
		if !gone {
			return waiting{"workload"}
		}
	}
	var err error
	if rendered.StatefulSet != nil {
		t.statefulSet, err = bring(ctx, r, statefulSets, backend, rendered.StatefulSet,
			func(live *appsv1.StatefulSet) (*appsv1.StatefulSet, []string) {
				return storage.MutateStatefulSet(live, rendered)
			})
	} else {
		t.deployment, err = bring(ctx, r, deployments, backend, rendered.Deployment,
			func(live *appsv1.Deployment) (*appsv1.Deployment, []string) {
				return storage.MutateDeployment(live, rendered)
			})
	}
	if err != nil || alone {
		return err
	}
	_, err = r.shedOtherKind(ctx, backend, metav1.DeletePropagationBackground)
	return err
}

func (r *Reconciler) claimWorkload(ctx context.Context, backend *v1alpha1.CacheBackend) error {
	if workloadKind(backend) == v1alpha1.DeploymentKindStatefulSet {
		return statefulSets.claim(ctx, r, backend)
	}
	return deployments.claim(ctx, r, backend)
}

func (r *Reconciler) shedOtherKind(ctx context.Context, backend *v1alpha1.CacheBackend, how metav1.DeletionPropagation) (bool, error) {
	if workloadKind(backend) == v1alpha1.DeploymentKindStatefulSet {
		return deployments.shed(ctx, r, backend, how)
	}
	return statefulSets.shed(ctx, r, backend, how)
}

func (r *Reconciler) applyAutoscaler(ctx context.Context, backend *v1alpha1.CacheBackend, rendered *storage.Rendered) error {
	if rendered.HPA == nil {
		_, err := autoscalers.shed(ctx, r, backend, metav1.DeletePropagationBackground)
		return err
	}
	_, err := bring(ctx, r, autoscalers, backend, rendered.HPA,
		func(live *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv2.HorizontalPodAutoscaler, []string) {
			return storage.MutateHPA(live, rendered), nil
		})
	return err
}

// shed removes the objects of a backend that has no tier of ours.
func (r *Reconciler) shed(ctx context.Context, backend *v1alpha1.CacheBackend) error {
	_, deploymentErr := deployments.shed(ctx, r, backend, metav1.DeletePropagationBackground)
	_, statefulSetErr := statefulSets.shed(ctx, r, backend, metav1.DeletePropagationBackground)
	_, serviceErr := services.shed(ctx, r, backend, metav1.DeletePropagationBackground)
	_, autoscalerErr := autoscalers.shed(ctx, r, backend, metav1.DeletePropagationBackground)
	return errors.Join(deploymentErr, statefulSetErr, serviceErr, autoscalerErr)
}

// bring creates an object or brings the live one to the desired state, and returns what is
// there afterwards, nil for nothing. Beside an error, that is what was there before. What
// has changed since it was read is read again.
func bring[S any, T interface {
	*S
	client.Object
}](ctx context.Context, r *Reconciler, k kind[T], backend *v1alpha1.CacheBackend, desired T, mutate func(T) (T, []string)) (T, error) {
	live, found, err := k.current(ctx, r, backend)
	for attempt := 1; err == nil; attempt++ {
		if !found {
			live = nil
		}
		written, err := write(ctx, r, k, backend, live, desired, mutate)
		if !outdated(err) || attempt == attempts {
			return written, err
		}
		live, found, err = k.find(ctx, r.live, backend)
		if err != nil {
			return nil, err
		}
	}
	return nil, err
}

func write[S any, T interface {
	*S
	client.Object
}](ctx context.Context, r *Reconciler, k kind[T], backend *v1alpha1.CacheBackend, live, desired T, mutate func(T) (T, []string)) (T, error) {
	if live == nil {
		created := desired.DeepCopyObject().(T)
		if err := r.client.Create(ctx, created); err != nil {
			return nil, fmt.Errorf("creating %s: %w", k.name, err)
		}
		return created, nil
	}
	whose := ownershipOf(live, backend)
	switch {
	case whose == foreign:
		return live, k.refuse(live)
	case !live.GetDeletionTimestamp().IsZero():
		return nil, waiting{k.name}
	}
	mutated, immutable := mutate(live)
	if len(immutable) != 0 && whose == owned {
		if err := k.remove(ctx, r, live, k.replacing); err != nil {
			return live, err
		}
		return nil, waiting{k.name}
	}
	if apiequality.Semantic.DeepEqual(live, mutated) {
		return live, nil
	}
	// Without a uid in what it is compared with, the patch carries the uid of the object
	// that it is meant for.
	base := live.DeepCopyObject().(T)
	base.SetUID("")
	if err := r.client.Patch(ctx, mutated, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return live, fmt.Errorf("updating %s: %w", k.name, err)
	}
	return mutated, nil
}

// outdated says whether a write was decided on what is no longer so.
func outdated(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
