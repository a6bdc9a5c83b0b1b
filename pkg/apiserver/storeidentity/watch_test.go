// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

// TestStoreReplacedUnderRunningServer changes the store of a server that serves, as when the
// etcd behind an address is emptied or put back. Nobody is let through until it is back.
func TestStoreReplacedUnderRunningServer(t *testing.T) {
	t.Parallel()
	g := newGuard("store", newKV(t), fake.NewClientset())
	g.watchPeriod = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	defer func() { stop(); <-done }()
	<-g.Verified()
	waitFor(t.Context(), t, "the first epoch", func() bool { return storeEpoch(t, g) == 1 && g.Err() == nil })
	right := storeRecord{ID: "store-1", Epoch: 1}

	for name, wrong := range map[string]storeRecord{
		"another store": {ID: "other", Epoch: 9},
		"older state":   {ID: "store-1"},
	} {
		putStore(t, g, wrong)
		waitFor(t.Context(), t, name+" is refused", func() bool {
			err := g.Err()
			return err != nil && strings.Contains(err.Error(), "bring the right store back")
		})
		putStore(t, g, right)
		waitFor(t.Context(), t, "serving again after "+name, func() bool { return g.Err() == nil })
	}
	if _, err := g.store.kv.Delete(t.Context(), g.store.key); err != nil {
		t.Fatal(err)
	}
	waitFor(t.Context(), t, "an empty store is refused", func() bool { return g.Err() != nil })
}
