// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package participation publishes what the cache server's index holds: of the engines of each
// CacheBackend, and of each CacheTenant.
package participation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
	"inferencecache.io/inferencecache/pkg/controllers/outcome"
)

// Name names the poller, in errors and logs.
const Name = "index-poller"

// DefaultInterval is the time between two ticks where none is asked for.
const DefaultInterval = 30 * time.Second

// Index is where the cache server's index is read.
type Index interface {
	Snapshot(ctx context.Context) (*cacheserver.Snapshot, error)
}

// Poller reads the index, and publishes what follows from it, again and again.
type Poller struct {
	index    Index
	interval time.Duration
	// client reads from the cache.
	client client.Client
	// live reads from the API server.
	live    client.Reader
	clock   clock.Clock
	metrics *t2Metrics

	indexLog, podsLog, backendsLog, tenantsLog outcome.Log
}

// Add makes a manager run a poller while it leads. An interval of 0 or less is
// DefaultInterval.
func Add(manager ctrl.Manager, index Index, interval time.Duration) error {
	t2, err := newT2Metrics(metrics.Registry)
	if err != nil {
		return err
	}
	return manager.Add(newPoller(index, interval, manager.GetClient(), manager.GetAPIReader(), clock.RealClock{}, t2))
}

func newPoller(index Index, interval time.Duration, c client.Client, live client.Reader, clock clock.Clock, t2 *t2Metrics) *Poller {
	if interval <= 0 {
		interval = DefaultInterval
	}
	return &Poller{
		index: index, interval: interval, client: c, live: live, clock: clock, metrics: t2,
		indexLog:    outcome.Log{Failure: "Could not read the cache server's index", Success: "The cache server's index can be read"},
		podsLog:     outcome.Log{Failure: "Could not list engine pods", Success: "Engine pods can be listed"},
		backendsLog: outcome.Log{Failure: "Could not publish the participation of backends", Success: "The participation of backends can be published"},
		tenantsLog:  outcome.Log{Failure: "Could not publish the statuses of tenants", Success: "The statuses of tenants can be published"},
	}
}

// NeedLeaderElection says that one poller is enough for a cluster.
func (p *Poller) NeedLeaderElection() bool { return true }

// Start ticks until the context ends: at once, and then with a pause after each tick.
func (p *Poller) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName(Name))
	for {
		p.tick(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-p.clock.After(p.interval):
		}
	}
}

// tick publishes what follows from one reading of the index. Nothing follows from one that
// failed: what is published stays as it is.
func (p *Poller) tick(ctx context.Context) {
	snapshot, err := p.index.Snapshot(ctx)
	p.report(ctx, &p.indexLog, err)
	if err != nil {
		return
	}
	p.report(ctx, &p.backendsLog, p.tellBackends(ctx, snapshot.Replicas))
	p.report(ctx, &p.tenantsLog, p.tellTenants(ctx, snapshot.Tenants))
}

// report logs an outcome, unless it may be due to the end of the process.
func (p *Poller) report(ctx context.Context, l *outcome.Log, err error) {
	if ctx.Err() == nil {
		l.Report(log.FromContext(ctx), err)
	}
}

func (p *Poller) tellBackends(ctx context.Context, replicas []cacheserver.Replica) error {
	observation, err := p.observe(ctx, replicas)
	if err != nil {
		return err
	}
	p.report(ctx, &p.podsLog, observation.err)
	shares := attribute(replicas, observation.backends, observation.pods)
	p.metrics.update(observation.backends, shares, observation.unlisted)
	return p.publishParticipation(ctx, observation, shares)
}

func (p *Poller) tellTenants(ctx context.Context, rows []cacheserver.Tenant) error {
	var tenants v1alpha1.CacheTenantList
	if err := p.client.List(ctx, &tenants); err != nil {
		return fmt.Errorf("listing tenants: %w", err)
	}
	return p.publishTenants(ctx, tenants.Items, tenantStatuses(rows, tenants.Items, p.clock.Now()))
}
