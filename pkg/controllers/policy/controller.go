// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Name names the controller, in logs and metrics.
const Name = "policy-controller"

// DefaultInterval is the time between two pushes without a reason, where none is asked for.
const DefaultInterval = 30 * time.Second

// minBackoff is the pause after a push that failed. It grows up to the interval.
const minBackoff = 500 * time.Millisecond

// everything is the one request of the controller: each push is of the full state, so that
// one push serves for all that happened before it.
var everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// Add makes a manager run the controller. An interval of 0 or less is DefaultInterval.
// Statuses are not pushed, so their changes need no push.
func Add(manager ctrl.Manager, server Server, interval time.Duration) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{everything}
	})
	// After a gap in the watch, an object that was made anew looks like an update.
	anew := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() }}
	ofSpecs := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, anew))
	return ctrl.NewControllerManagedBy(manager).
		Named(Name).
		Watches(&v1alpha1.CachePolicy{}, all, ofSpecs).
		Watches(&v1alpha1.CacheTenant{}, all, ofSpecs).
		WatchesRawSource(source.Func(atStart)).
		Complete(newReconciler(manager.GetAPIReader(), server, interval))
}

// atStart asks for a push without an event: where there are no objects, the server may still
// follow what it was told of some before.
func atStart(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(everything)
	return nil
}
