// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy tells the cache server which CachePolicies and which quotas of CacheTenants
// it is to follow.
package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
	"inferencecache.io/inferencecache/pkg/controllers/outcome"
)

// Server is the cache server.
type Server interface {
	// Push replaces all that the server follows.
	Push(ctx context.Context, state *cacheserver.PolicyState) error
}

// Reconciler pushes the full state: there is nothing smaller that the server takes.
type Reconciler struct {
	// live reads from the API server. A cache would go on with what it had when our API is
	// not there.
	live     client.Reader
	server   Server
	interval time.Duration
	backoff  workqueue.TypedRateLimiter[reconcile.Request]
	pushes   outcome.Log

	// pushing is held from the reading of the objects until the server has taken them, so that
	// an older state never replaces a newer one.
	pushing sync.Mutex
}

func newReconciler(reader client.Reader, server Server, interval time.Duration) *Reconciler {
	if interval <= 0 {
		interval = DefaultInterval
	}
	return &Reconciler{
		live: reader, server: server, interval: interval,
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](min(minBackoff, interval), interval),
		pushes:  outcome.Log{Failure: "Could not push policies to the cache server", Success: "Policies are pushed to the cache server"},
	}
}

// Reconcile pushes, and asks for the next push: a server that was started anew follows
// nothing until it is told. A failure is told when it is news, and not returned, which would
// tell it each time.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.pushing.Lock()
	defer r.pushing.Unlock()
	err := r.push(ctx)
	if ctx.Err() == nil {
		r.pushes.Report(log.FromContext(ctx), err)
	}
	switch {
	case err == nil, unserved(err):
		r.backoff.Forget(request)
		return ctrl.Result{RequeueAfter: r.interval}, nil
	default:
		return ctrl.Result{RequeueAfter: r.backoff.When(request)}, nil
	}
}

// push sends nothing unless both kinds were read: what is left out goes back to the server's
// defaults, and quotas would be lifted.
func (r *Reconciler) push(ctx context.Context) error {
	var policies v1alpha1.CachePolicyList
	if err := r.live.List(ctx, &policies); err != nil {
		return fmt.Errorf("listing policies: %w", err)
	}
	var tenants v1alpha1.CacheTenantList
	if err := r.live.List(ctx, &tenants); err != nil {
		return fmt.Errorf("listing tenants: %w", err)
	}
	if err := r.server.Push(ctx, desiredState(policies.Items, tenants.Items)); err != nil {
		return fmt.Errorf("pushing: %w", err)
	}
	return nil
}

// unserved says that our API is not registered. There is no haste then.
func unserved(err error) bool {
	return apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err)
}
