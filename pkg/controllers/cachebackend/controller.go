// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Name names the controller: in logs, in metrics, and as the reporter of events.
const Name = "cachebackend-controller"

const (
	// concurrency is how many backends are worked on at once. Most of a pass is waiting: for
	// seconds where the cache server does not answer.
	concurrency = 32
	// A pass that failed is tried again within these bounds. The upper one is as often as a
	// backend is looked at anyway: a quota may have room again.
	minBackoff = 100 * time.Millisecond
	maxBackoff = steadyRequeue
)

// CacheOptions bound what the cache holds: of the kinds that others use too, only what
// carries our label. Their managed fields are needed.
func CacheOptions() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{storage.LabelManagedBy: storage.ManagedByValue})}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&appsv1.Deployment{}:                     ours,
		&appsv1.StatefulSet{}:                    ours,
		&corev1.Service{}:                        ours,
		&autoscalingv2.HorizontalPodAutoscaler{}: ours,
	}}
}

// Options are what the controller needs besides a manager.
type Options struct {
	// Prober calls the functional probe, nil for a cluster that does without.
	Prober Prober
}

// Add makes a manager run the controller. The manager's cache must be bounded by
// CacheOptions. CacheBackends are watched without a predicate: the poller's write of a first
// KV event is to the status, and must wake the gate that waits for it.
func Add(manager ctrl.Manager, options Options) error {
	return ctrl.NewControllerManagedBy(manager).
		Named(Name).
		For(&v1alpha1.CacheBackend{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		}).
		Complete(&Reconciler{
			client:   manager.GetClient(),
			live:     manager.GetAPIReader(),
			recorder: manager.GetEventRecorder(Name),
			clock:    clock.RealClock{},
			prober:   options.Prober,
		})
}
