// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"inferencecache.io/inferencecache/test/cacheserver"
)

// TestParticipationOfMany: a tick costs a list of pods, and a write for each backend with news. It restarts the controller, and
// must not run beside other tests.
func TestParticipationOfMany(t *testing.T) {
	const count = 200
	s := newStage(t, "--cachepolicy-push-interval=1h")
	namespace := newNamespace(t)
	name := func(i int) string { return fmt.Sprintf("cache-%d", i) }
	workqueue.ParallelizeUntil(t.Context(), 16, count, func(i int) {
		engine(t, namespace, name(i), map[string]string{"serve": name(i)})
	})
	backends := env.inference.InferencecacheV1alpha1().CacheBackends(namespace)
	workqueue.ParallelizeUntil(t.Context(), 16, count, func(i int) {
		backend := newBackend(namespace, name(i), withoutTier, selecting(map[string]string{"serve": name(i)}))
		if _, err := backends.Create(t.Context(), backend, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	all := func(prefixes int64) {
		var rows []cacheserver.Replica
		for i := range count {
			rows = append(rows, row(name(i), prefixes))
		}
		s.holds(namespace, rows...)
		started := time.Now()
		eventually(t, fmt.Sprintf("all backends have %d prefixes", prefixes), func(ctx context.Context) error {
			list, err := backends.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if got := describe(&list.Items[i]); got != fmt.Sprintf("%d 12:00:00", prefixes) {
					return fmt.Errorf("%s has %s", list.Items[i].Name, got)
				}
			}
			return nil
		})
		t.Logf("%d backends changed within %s", count, time.Since(started))
	}
	all(1)
	offset, before := waitQuiet(t), s.server.Requests(cacheserver.SnapshotPath)
	all(2)
	s.waitTicks(3)
	ticks := s.server.Requests(cacheserver.SnapshotPath) - before
	requests, err := audited(offset)
	must(t, err)
	written, lists := map[string]int{}, 0
	for _, r := range requests {
		switch {
		case r.write() && r.ObjectRef.Subresource == "status" && r.ObjectRef.Resource == "cachebackends":
			written[r.ObjectRef.Name]++
		case r.write():
			t.Errorf("it has written %s", r)
		case r.ObjectRef.Resource == "pods" && r.ObjectRef.Name == "":
			lists++
		}
	}
	for i := range count {
		// Once is enough. A tick that comes before the cache has the last one's writes makes them again, to no effect.
		if got := written[name(i)]; got > ticks {
			t.Errorf("%s was written %d times in %d ticks", name(i), got, ticks)
		}
	}
	if len(written) != count {
		t.Errorf("%d backends were written", len(written))
	}
	t.Logf("%d lists of pods", lists)
}
