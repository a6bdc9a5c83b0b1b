// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

const (
	// epochPeriod bounds how old a copy of the store can be without being recognized: one that was made since the last
	// epoch cannot be told from the store itself.
	epochPeriod = 10 * time.Minute
	// epochJitter keeps replicas that start together from writing together for ever.
	epochJitter = 0.2
)

// errWentBack has no numbers, which would make it a new error at each epoch.
var errWentBack = errors.New("the store is in an older state than the cluster has seen of it: it was put back while this server ran")

// keepAdvancing moves the epoch on now and then until ctx ends. What fails is tried again after the same time: the store
// has been verified, so nobody has to wait for it.
func (g *Guard) keepAdvancing(ctx context.Context) {
	last := ""
	// The only error is that of the context, which its owner knows.
	_ = g.period.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		last = reportAdvance(ctx, g.advance(ctx), last)
		return false, nil
	})
}

// reportAdvance logs an outcome if it differs from the last one, and returns it.
func reportAdvance(ctx context.Context, err error, last string) string {
	if ctx.Err() != nil {
		return last // interrupted: says nothing about the store
	}
	log := klog.FromContext(ctx)
	if err == nil {
		if last != "" {
			log.Info("The epoch of the store is recorded again")
		}
		return ""
	}
	if err.Error() != last {
		log.Error(err, "Could not record the epoch of the store, so a copy of it may not be recognized as an older one; trying again")
	}
	return err.Error()
}

// advance begins a new epoch, in the store first. A crash in between leaves a store that is ahead of the cluster, which
// is served; in the other order it would be taken for an older one. Replicas may each do it: it only has to grow.
func (g *Guard) advance(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, evaluationTimeout)
	defer cancel()
	if err := settle(ctx, g.advanceStore); err != nil {
		return err
	}
	return settle(ctx, g.advanceCluster)
}

func (g *Guard) advanceStore(ctx context.Context) (done bool, _ error) {
	r, err := g.readOwn(ctx)
	if err != nil {
		return false, err
	}
	err = g.store.write(ctx, storeRecord{ID: r.store.ID, Epoch: r.store.Epoch + 1}, r.revision)
	return err == nil, err
}

// advanceCluster never takes an epoch back: that needs a consent.
func (g *Guard) advanceCluster(ctx context.Context) (done bool, _ error) {
	r, err := g.readOwn(ctx)
	switch {
	case err != nil:
		return false, err
	case r.store.isBehind(r.cluster):
		return false, errWentBack
	case r.store.ID == r.cluster.ID && r.store.Epoch == r.cluster.Epoch:
		return true, nil // another replica was here
	}
	err = g.cluster.write(ctx, r.store, r.configMap)
	return err == nil, err
}

// readOwn reads both sides and makes sure that they still are about the store that was verified. If somebody has accepted
// another one, or put another one in its place, then its epoch is not this server's to write. A ConfigMap that was deleted
// is made anew.
func (g *Guard) readOwn(ctx context.Context) (records, error) {
	r, err := g.read(ctx)
	if err != nil {
		return records{}, err
	}
	if r.store.ID == "" || r.store.Pending || r.cluster.ID != "" && r.cluster.ID != r.store.ID {
		return records{}, fmt.Errorf("this server has store %q by now, and the cluster's resources belong to store %q",
			r.store.ID, r.cluster.ID)
	}
	return r, nil
}
