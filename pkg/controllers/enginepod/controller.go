// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package enginepod tells on engine pods, by events, what the webhook made of them. The
// webhook cannot: while it decides, the pod has no uid yet that an event could name.
package enginepod

import (
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Name names the controller: in logs, in metrics, and as the reporter of events.
const Name = "engine-pod-events"

const (
	// A controller that starts is told of all pods that there are. One worker and these many
	// events per second keep that from being a storm. Pods that are created meanwhile do not
	// have to wait: those of the first list have a lower priority in the queue.
	concurrency     = 1
	eventsPerSecond = 20
	eventsBurst     = 50

	// passTimeout keeps an API server that hangs from holding up the worker.
	passTimeout = 15 * time.Second

	// A pass that failed is tried again within these bounds.
	minBackoff = time.Second
	maxBackoff = 2 * time.Minute
)

// Add makes a manager run the controller, while it leads. The manager's cache must be
// bounded by CacheByObject.
func Add(manager ctrl.Manager) error {
	config := rest.CopyConfig(manager.GetConfig())
	config.QPS, config.Burst, config.RateLimiter = eventsPerSecond, eventsBurst, nil
	events, err := eventsclient.NewForConfigAndClient(config, manager.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating client of events: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("naming the reporter of events: %w", err)
	}
	return ctrl.NewControllerManagedBy(manager).
		Named(Name).
		For(&corev1.Pod{}, builder.OnlyMetadata, builder.WithPredicates(created())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			ReconciliationTimeout:   passTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		}).
		Complete(&reconciler{
			pods:     manager.GetCache(),
			backends: manager.GetAPIReader(),
			events:   events,
			instance: instanceOn(host),
			clock:    clock.RealClock{},
		})
}

// created lets the creation of candidates pass. The webhook has written its annotations by
// then, and what is changed later is not its work. After a gap in the watch a pod that took
// the place of another of its name looks like a change.
func created() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return candidate(e.Object.GetAnnotations()) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() && candidate(e.ObjectNew.GetAnnotations())
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
