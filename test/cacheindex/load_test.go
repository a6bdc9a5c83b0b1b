// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cacheserver"
)

const (
	// minPause is what a replica leaves the cache server between an answer and the next request at least, and so between
	// the arrivals of two requests.
	minPause = time.Second
)

// TestLoad asserts how little a cache server is asked: never while nobody reads, and once a second at most by a replica, however
// many watch and read.
func TestLoad(t *testing.T) {
	working(t)
	quiet(t)

	// All at one replica, so that the pauses are those of one.
	oneReplica(t)
	var requests arrivals
	env.server.SetBehavior(cacheserver.SnapshotPath, requests.behavior())
	defer env.server.SetBehavior(cacheserver.SnapshotPath, nil)

	const watchers = 100
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var latest [watchers]atomic.Int64
	ended := make(chan error, watchers)
	for i := range watchers {
		watcher, err := indices().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer watcher.Stop()
			for event := range watcher.ResultChan() {
				if index, ok := event.Object.(*v1alpha1.CacheIndex); ok {
					latest[i].Store(total(index))
				}
			}
			ended <- ctx.Err()
		}()
	}
	for n := range int64(10) {
		say(7000 + n)
		getIndex(t)
		eventually(t, fmt.Sprintf("all watchers have seen change %d", n), func(context.Context) error {
			for i := range latest {
				if got := latest[i].Load(); got != 7000+n {
					return fmt.Errorf("watcher %d is at %d", i, got)
				}
			}
			return nil
		})
	}
	stop()
	for range watchers {
		if <-ended == nil {
			t.Error("a watch has ended by itself")
		}
	}
	times := requests.all()
	if len(times) < 10 {
		t.Errorf("%d requests for 10 changes", len(times))
	}
	for i := 1; i < len(times); i++ {
		if gap := times[i].Sub(times[i-1]); gap < minPause {
			t.Errorf("request %d arrives %s after the one before", i, gap)
		}
	}
	quiet(t)
}

// quiet waits until the last request that somebody caused is over, and then asserts that no more come.
func quiet(t *testing.T) {
	t.Helper()
	last := -1
	eventually(t, "the requests cease", func(ctx context.Context) error {
		now := env.server.Requests(cacheserver.SnapshotPath)
		if now != last {
			last = now
			// Longer than the pause, so that the next request would be here.
			select {
			case <-time.After(3 * minPause):
			case <-ctx.Done():
			}
		}
		if now = env.server.Requests(cacheserver.SnapshotPath); now != last {
			return fmt.Errorf("%d requests, %d before", now, last)
		}
		return nil
	})
}
