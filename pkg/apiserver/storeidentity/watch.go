// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// watchPeriod is how often a running server looks whether it still has its store. An etcd of its own cannot be taken
// from under it; one behind an address can be emptied, restored or replaced at any time.
const watchPeriod = 5 * time.Second

// keepWatching looks at the store until ctx ends, and lets nobody through while another one is in its place. An etcd that
// does not answer is no other one: whoever asks it gets an error, not a 404.
func (g *Guard) keepWatching(ctx context.Context, period time.Duration) {
	known := g.served
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, evaluationTimeout)
		defer cancel()
		found, _, err := g.store.read(ctx)
		if err != nil {
			return
		}
		err = replaced(known, found)
		if err == nil {
			known = found // its epoch moves on
		}
		g.setProblem(ctx, err)
	}, period)
}

// replaced says how what is found differs from the store that a server serves.
func replaced(known, found storeRecord) error {
	const wayOut = "bring the right store back, or restart this server to be told how to accept the other one"
	switch {
	case found.ID != known.ID:
		return fmt.Errorf("this server served store %s and finds store %q in its place: %s", known.ID, found.ID, wayOut)
	case found.Epoch < known.Epoch:
		return fmt.Errorf("this server served store %s at epoch %d and finds it at epoch %d, an older state: %s",
			known.ID, known.Epoch, found.Epoch, wayOut)
	}
	return nil
}

// setProblem changes what a verified guard says of its store.
func (g *Guard) setProblem(ctx context.Context, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.problem
	g.problem = err
	switch log := klog.FromContext(ctx); {
	case err == nil && old != nil:
		log.Info("The store is the right one again")
	case err != nil && (old == nil || old.Error() != err.Error()):
		log.Error(err, "Not serving inferencecache.io any more")
	}
}
