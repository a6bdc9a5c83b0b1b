// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storeidentity keeps a server with an empty or foreign store from answering for the cluster's resources. To
// Kubernetes' garbage collector a 404 for an owner means that its dependents are to be deleted, so a server that has lost
// its store, and says so in the usual way, would take every workload with it. So would one with an older copy of its
// store, for what has been created since; that is what epochs are for.
package storeidentity

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
)

const (
	// CheckName is the name of the guard among health checks.
	CheckName = "store-identity"

	// evaluationTimeout bounds one evaluation: etcd's client would wait for a dead server without end.
	evaluationTimeout = 10 * time.Second
	// maxSteps is more than the steps from nothing to served, races included.
	maxSteps = 10
)

var (
	errUnchecked = errors.New("the identity of this server's store has not been checked yet")
	errUnsettled = errors.New("the identity of this server's store is being changed by other servers")
)

// Options is what a Guard needs. All of it is required.
type Options struct {
	// ConfigMaps is the host cluster's, such as kubernetes.Interface's CoreV1(). It must not be a cache.
	ConfigMaps corev1client.ConfigMapsGetter
	// KV is the etcd that holds the resources.
	KV clientv3.KV
	// Prefix is the etcd prefix of the API server's storage.
	Prefix string
	// Namespace is where the ConfigMap is kept.
	Namespace string
}

// Guard compares the identity of the store with the one that the cluster knows. Until they agree it has an error for
// whoever would serve from that store; afterwards it lets everybody through for as long as that store is
// there, and moves the store's epoch on.
type Guard struct {
	store   store
	cluster cluster
	newID   func() string
	backoff wait.Backoff // between evaluations
	period  wait.Backoff // between epochs
	// watchPeriod is the time between looks at a store that is served.
	watchPeriod time.Duration

	served   storeRecord // the store when it was verified
	verified chan struct{}
	mu       sync.Mutex
	problem  error // nil while the store is the right one
}

// New makes a guard that lets nobody through until Run has found the store to be the right one.
func New(o Options) *Guard {
	return &Guard{
		store:       newStore(o.KV, o.Prefix),
		cluster:     cluster{configMaps: o.ConfigMaps.ConfigMaps(o.Namespace), namespace: o.Namespace},
		newID:       func() string { return string(uuid.NewUUID()) },
		backoff:     wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 4 * time.Second},
		period:      wait.Backoff{Duration: epochPeriod, Jitter: epochJitter},
		watchPeriod: watchPeriod,
		verified:    make(chan struct{}),
		problem:     errUnchecked,
	}
}

// Run evaluates until the store is verified, and then watches it and moves its epoch on until ctx ends. Each round of the former is one
// read of etcd and one of the cluster. Run it once, in the background.
func (g *Guard) Run(ctx context.Context) {
	err := g.backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := g.evaluate(ctx)
		g.report(ctx, err)
		return err == nil, nil
	})
	if err != nil {
		return // that of the context, which its owner knows
	}
	var group sync.WaitGroup
	group.Go(func() { g.keepWatching(ctx, g.watchPeriod) })
	g.keepAdvancing(ctx)
	group.Wait()
}

// Verified is closed when the store has been found to be the right one.
func (g *Guard) Verified() <-chan struct{} {
	return g.verified
}

// Err is nil while the store is the right one, else what is wrong and the way out. Whoever reads the store by another way than
// the guarded handler asks here first.
func (g *Guard) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.problem
}

// Name makes the guard a health check.
func (g *Guard) Name() string {
	return CheckName
}

// Check makes the guard a health check. It is for readiness: restarting a server does not give it another store.
func (g *Guard) Check(*http.Request) error {
	return g.Err()
}

// report keeps the outcome and logs it if it is new. What has been verified stays so.
func (g *Guard) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return // interrupted: says nothing about the store
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.problem
	if old == nil {
		return
	}
	g.problem = err
	switch log := klog.FromContext(ctx); {
	case err == nil:
		log.Info("The store is the one that the cluster knows")
		close(g.verified)
	case old.Error() != err.Error():
		log.Error(err, "Not serving inferencecache.io")
	}
}

// evaluate takes steps until the store is verified or there is nothing left that this server may do by itself.
func (g *Guard) evaluate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, evaluationTimeout)
	defer cancel()
	return settle(ctx, g.step)
}

// settle repeats a step until it is done or fails for another reason than that somebody else wrote first.
func settle(ctx context.Context, step func(context.Context) (done bool, err error)) error {
	for range maxSteps {
		done, err := step(ctx)
		if done || err != nil && !errors.Is(err, errStale) {
			return err
		}
	}
	return errUnsettled
}

// records is what both sides say, and what it takes to write on top of that.
type records struct {
	store     storeRecord
	revision  int64
	cluster   clusterRecord
	configMap *corev1.ConfigMap
}

// read reads the cluster first. Epochs are written to the store first, so a store that is behind what the cluster said
// before really is: a replica that moves on at this moment cannot make it look so.
func (g *Guard) read(ctx context.Context) (r records, err error) {
	if r.cluster, r.configMap, err = g.cluster.read(ctx); err != nil {
		return records{}, err
	}
	if r.store, r.revision, err = g.store.read(ctx); err != nil {
		return records{}, err
	}
	return r, nil
}

// step reads both sides and does the one thing that follows. It is done when the store may be served.
func (g *Guard) step(ctx context.Context) (done bool, _ error) {
	r, err := g.read(ctx)
	if err != nil {
		return false, err
	}
	next := decide(r.store, r.cluster)
	log := klog.FromContext(ctx).WithValues("store", r.store.ID, "epoch", r.store.Epoch,
		"clusterStore", r.cluster.ID, "clusterEpoch", r.cluster.Epoch)
	log.V(4).Info("Compared the store's identity", "action", next)
	switch next {
	case actionServe:
		g.served = r.store
		return true, nil
	case actionCreate:
		return false, g.store.write(ctx, storeRecord{ID: g.newID()}, r.revision)
	case actionName:
		return false, g.store.write(ctx, storeRecord{ID: g.newID(), Pending: true}, r.revision)
	case actionSettle:
		return false, g.store.write(ctx, storeRecord{ID: r.store.ID, Epoch: r.store.Epoch}, r.revision)
	case actionRecord:
		return false, g.cluster.write(ctx, r.store, r.configMap)
	case actionAccept:
		log.Info("Taking this store for the cluster's, as its ConfigMap says")
		return false, g.cluster.write(ctx, r.store, r.configMap)
	default:
		return false, refusal(r.store, r.cluster, g.cluster.namespace, r.configMap != nil)
	}
}
