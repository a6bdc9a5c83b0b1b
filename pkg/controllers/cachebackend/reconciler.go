// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolsevents "k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// staleRequeue is for a pass that was about an old state of the backend. The watch tells
// about the new one; this is for the case that it does not.
const staleRequeue = time.Second

// Reconciler reconciles CacheBackends.
type Reconciler struct {
	// client reads from the cache, which holds CacheBackends and, of the other kinds, what
	// carries our label.
	client client.Client
	// live reads from the API server.
	live     client.Reader
	recorder toolsevents.EventRecorder
	clock    clock.PassiveClock
	// prober is nil where functional probes are switched off.
	prober   Prober
	memories memories
}

// Reconcile is one pass over a backend. Nothing is created for one that is being deleted:
// its objects go with it. A status that was decided on an old state of the backend is
// refused by the API server, and with it the pass's events.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	backend := &v1alpha1.CacheBackend{}
	if err := r.client.Get(ctx, request.NamespacedName, backend); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !backend.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	t, err := r.provision(ctx, backend)
	if err != nil {
		return ctrl.Result{}, err
	}
	view := r.viewPods(ctx, backend)
	observation := r.observe(ctx, backend, t, view)
	if t != nil {
		observation.Restart = r.followServers(ctx, backend, view)
	}
	decision := Decide(backend, observation, r.clock.Now())
	if decision.Probe {
		observation.Probe.Answer = r.probe(ctx, backend)
		decision = Decide(backend, observation, r.clock.Now())
	}
	err = r.publish(ctx, backend, decision.Status)
	if err == nil {
		r.memories.of(backend).published(backend, observation, decision)
		r.tell(ctx, backend, decision.Events)
	}
	switch {
	case curable(observation.Applied.Err):
		return ctrl.Result{}, observation.Applied.Err
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Not found says little: a backend that is gone leaves the cache, too, and an API
		// group that is away for a moment is not found either.
		log.FromContext(ctx).V(4).Info("The backend has changed during the pass")
		return ctrl.Result{RequeueAfter: staleRequeue}, nil
	case err != nil:
		return ctrl.Result{}, err
	default:
		return ctrl.Result{RequeueAfter: decision.RequeueAfter}, nil
	}
}

// provision sees to the backend's own objects. Those of a backend that has no tier any more
// go before its status says so.
func (r *Reconciler) provision(ctx context.Context, backend *v1alpha1.CacheBackend) (*tier, error) {
	if Classify(backend).Path != adapters.Managed {
		r.memories.of(backend).leaveTier()
		return nil, r.shed(ctx, backend)
	}
	return r.apply(ctx, backend)
}

// curable says whether it may help to try again what has failed. What has to wait does not,
// and in a namespace that is being deleted nothing will be created again.
func curable(err error) bool {
	return err != nil && !errors.As(err, &waiting{}) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// publish writes what is new in the status. The patch holds the fields that a pass decides
// about, and the version of the backend that it decided on.
func (r *Reconciler) publish(ctx context.Context, backend *v1alpha1.CacheBackend, status v1alpha1.CacheBackendStatus) error {
	if apiequality.Semantic.DeepEqual(backend.Status, status) {
		return nil
	}
	next := backend.DeepCopy()
	next.Status = status
	patch := client.MergeFromWithOptions(backend, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, next, patch); err != nil {
		return fmt.Errorf("updating status: %w", err)
	}
	return nil
}

func (r *Reconciler) tell(ctx context.Context, backend *v1alpha1.CacheBackend, happened []Event) {
	for _, event := range happened {
		log.FromContext(ctx).V(2).Info("Telling an event", "reason", event.Reason)
		r.recorder.Eventf(backend, nil, event.Type, event.Reason, event.Reason, "%s", event.Note)
	}
}
