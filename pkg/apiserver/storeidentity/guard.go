// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storeidentity keeps a server with an empty or foreign store from answering for the cluster's resources. To
// Kubernetes' garbage collector a 404 for an owner means that its dependents are to be deleted, so a server that has lost
// its store, and says so in the usual way, would take every workload with it.
package storeidentity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
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
// whoever would serve from that store; afterwards it is done for the life of the process, which has its store open.
type Guard struct {
	store   store
	cluster cluster
	newID   func() string
	backoff wait.Backoff

	verified chan struct{}
	mu       sync.Mutex
	problem  error // nil once verified
}

// New makes a guard that lets nobody through until Run has found the store to be the right one.
func New(o Options) *Guard {
	return &Guard{
		store:    newStore(o.KV, o.Prefix),
		cluster:  cluster{configMaps: o.ConfigMaps.ConfigMaps(o.Namespace), namespace: o.Namespace},
		newID:    func() string { return string(uuid.NewUUID()) },
		backoff:  wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 4 * time.Second},
		verified: make(chan struct{}),
		problem:  errUnchecked,
	}
}

// Run evaluates until the store is verified or ctx ends. Each round is one read of etcd and one of the cluster. Run it
// once, in the background.
func (g *Guard) Run(ctx context.Context) {
	// The only error is that of the context, which its owner knows.
	_ = g.backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := g.evaluate(ctx)
		g.report(ctx, err)
		return err == nil, nil
	})
}

// Verified is closed when the store has been found to be the right one.
func (g *Guard) Verified() <-chan struct{} {
	return g.verified
}

// Err is nil once the store is verified, else what is wrong and the way out. Whoever reads the store by another way than
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
	for range maxSteps {
		done, err := g.step(ctx)
		if done || err != nil && !errors.Is(err, errStale) {
			return err
		}
	}
	return errUnsettled
}

// step reads both sides and does the one thing that follows. It is done when the store may be served.
func (g *Guard) step(ctx context.Context) (done bool, _ error) {
	inStore, revision, err := g.store.read(ctx)
	if err != nil {
		return false, err
	}
	inCluster, cm, err := g.cluster.read(ctx)
	if err != nil {
		return false, err
	}
	next := decide(inStore, inCluster)
	log := klog.FromContext(ctx).WithValues("store", inStore.ID, "clusterStore", inCluster.ID)
	log.V(4).Info("Compared the store's identity", "action", next)
	switch next {
	case actionServe:
		return true, nil
	case actionCreate:
		return false, g.store.write(ctx, storeRecord{ID: g.newID()}, revision)
	case actionName:
		return false, g.store.write(ctx, storeRecord{ID: g.newID(), Pending: true}, revision)
	case actionSettle:
		return false, g.store.write(ctx, storeRecord{ID: inStore.ID}, revision)
	case actionRecord:
		return false, g.cluster.write(ctx, inStore.ID, cm)
	case actionAccept:
		log.Info("Taking this store for the cluster's, as its ConfigMap says")
		return false, g.cluster.write(ctx, inStore.ID, cm)
	default:
		return false, refusal(inStore, inCluster, g.cluster.namespace, cm != nil)
	}
}

// refusal says what is wrong and the ways out, as commands to copy: it is all that an operator sees.
func refusal(inStore storeRecord, inCluster clusterRecord, namespace string, exists bool) error {
	kubectl := fmt.Sprintf("kubectl -n %s ", namespace)
	accept := fmt.Sprintf("annotate --overwrite configmap %s %s=%s", ConfigMapName, AcceptStoreAnnotation, inStore.ID)
	if !exists {
		accept = fmt.Sprintf("create configmap %s --from-literal=%s=%s", ConfigMapName, StoreIDKey, inStore.ID)
	}
	if inCluster.ID == "" {
		return fmt.Errorf("store %s was given to this server in place of another, and the cluster no longer knows of which "+
			"(configmap %s/%s was emptied or deleted): mount the right one, or accept this one and lose the other with: %s",
			inStore.ID, namespace, ConfigMapName, kubectl+accept)
	}
	return fmt.Errorf("the cluster's resources belong to store %s, but this server has store %s "+
		"(data directory or etcd prefix changed?): mount the right one, or accept this one and lose the old with: %s",
		inCluster.ID, inStore.ID, kubectl+accept)
}
