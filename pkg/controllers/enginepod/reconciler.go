// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// reconciler tells the news about one pod.
type reconciler struct {
	pods client.Reader
	// backends reads what is stored now: a backend may be as young as its pod.
	backends client.Reader
	events   eventsclient.EventsGetter
	instance string
	clock    clock.PassiveClock
}

func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := newPod()
	if err := r.pods.Get(ctx, request.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	n, err := decide(pod.Annotations, func(key types.NamespacedName) (*v1alpha1.CacheBackend, error) {
		backend := &v1alpha1.CacheBackend{}
		return backend, r.backends.Get(ctx, key, backend)
	})
	if n == nil || err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.tell(ctx, pod, n)
}

// tell writes an event. Not by an event recorder: what that knows of told events ends with
// the process, and it drops events when there are many at once, or when one is refused.
func (r *reconciler) tell(ctx context.Context, pod *metav1.PartialObjectMetadata, n *news) error {
	event := eventOf(pod, n, r.instance, r.clock.Now())
	_, err := r.events.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // The pod goes too.
		return nil
	default:
		return fmt.Errorf("recording event %s: %w", n.reason, err)
	}
}

// newPod is the metadata of no pod yet.
func newPod() *metav1.PartialObjectMetadata {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}
