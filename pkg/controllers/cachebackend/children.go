// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// kind is what is particular to objects of a kind. All of a backend's own objects have the
// backend's name.
type kind[T client.Object] struct {
	name string
	new  func() T
	// replacing is how an object is deleted that another one is to take the place of: of a
	// workload the pods must be gone first.
	replacing metav1.DeletionPropagation
}

var (
	deployments = kind[*appsv1.Deployment]{
		name: "Deployment", new: func() *appsv1.Deployment { return &appsv1.Deployment{} },
		replacing: metav1.DeletePropagationForeground,
	}
	statefulSets = kind[*appsv1.StatefulSet]{
		name: "StatefulSet", new: func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} },
		replacing: metav1.DeletePropagationForeground,
	}
	services = kind[*corev1.Service]{
		name: "Service", new: func() *corev1.Service { return &corev1.Service{} },
		replacing: metav1.DeletePropagationBackground,
	}
	autoscalers = kind[*autoscalingv2.HorizontalPodAutoscaler]{
		name: "HorizontalPodAutoscaler",
		new: func() *autoscalingv2.HorizontalPodAutoscaler {
			return &autoscalingv2.HorizontalPodAutoscaler{}
		},
		replacing: metav1.DeletePropagationBackground,
	}
)

// unreadable is the error of a read. Nothing is known after it, so it ends the pass: it
// must never be taken for an object that is not there.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// find returns the object with the backend's name, and false when there is none.
func (k kind[T]) find(ctx context.Context, reader client.Reader, backend *v1alpha1.CacheBackend) (T, bool, error) {
	object := k.new()
	err := reader.Get(ctx, client.ObjectKeyFromObject(backend), object)
	if apierrors.IsNotFound(err) {
		return object, false, nil
	}
	if err != nil {
		return object, false, unreadable{fmt.Errorf("reading %s: %w", k.name, err)}
	}
	return object, true, nil
}

// current is find for an object that is wanted. The cache holds only what carries our
// label, so what is not in it may exist all the same.
func (k kind[T]) current(ctx context.Context, r *Reconciler, backend *v1alpha1.CacheBackend) (T, bool, error) {
	object, found, err := k.find(ctx, r.client, backend)
	if found || err != nil {
		return object, found, err
	}
	return k.find(ctx, r.live, backend)
}

// claim refuses the backend's name when somebody else's object has it.
func (k kind[T]) claim(ctx context.Context, r *Reconciler, backend *v1alpha1.CacheBackend) error {
	object, found, err := k.current(ctx, r, backend)
	if found && ownershipOf(object, backend) == foreign {
		return k.refuse(object)
	}
	return err
}

// shed deletes the object with the backend's name if it is the backend's, and says whether
// there is none of it left. While a spec is new the cache is not trusted for what is
// absent; later its watch tells about whatever turns up.
func (k kind[T]) shed(ctx context.Context, r *Reconciler, backend *v1alpha1.CacheBackend, how metav1.DeletionPropagation) (bool, error) {
	var reader client.Reader = r.client
	if backend.Status.ObservedGeneration != backend.Generation {
		reader = r.live
	}
	object, found, err := k.find(ctx, reader, backend)
	if err != nil || !found || !controlledBy(object, backend.UID) {
		return err == nil, err
	}
	return false, k.remove(ctx, r, object, how)
}

// remove deletes exactly the object that was read. One that is being deleted already is
// left to it.
func (k kind[T]) remove(ctx context.Context, r *Reconciler, object T, how metav1.DeletionPropagation) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	preconditions := client.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())}
	err := r.client.Delete(ctx, object, preconditions, client.PropagationPolicy(how))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", k.name, err)
	}
	return nil
}

// refuse is the error of a write to an object that is somebody else's.
func (k kind[T]) refuse(object T) error {
	return refusal{Refusal{Kind: k.name, Name: object.GetName(), Going: !object.GetDeletionTimestamp().IsZero()}}
}

type refusal struct{ Refusal }

func (r refusal) Error() string { return r.Kind + " " + r.Name + " is not this backend's" }

// ownership says whose an object is.
type ownership int

const (
	// foreign objects are somebody else's, and left as they are.
	foreign ownership = iota
	// adoptable objects have lost their controller and carry our labels.
	adoptable
	owned
)

func ownershipOf(object metav1.Object, backend *v1alpha1.CacheBackend) ownership {
	labels := object.GetLabels()
	switch {
	case controlledBy(object, backend.UID):
		return owned
	case metav1.GetControllerOfNoCopy(object) != nil:
		return foreign
	case labels[storage.LabelManagedBy] == storage.ManagedByValue && labels[storage.LabelInstance] == backend.Name:
		return adoptable
	default:
		return foreign
	}
}
