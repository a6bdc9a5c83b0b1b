// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const tinyQuota = 1 << 20

// fill puts values until etcd refuses. With keys above one the values stay in use, else they become history.
func fill(t *testing.T, client *clientv3.Client, keys int) {
	t.Helper()
	value := strings.Repeat("x", 32<<10)
	for i := range 1000 {
		_, err := client.Put(t.Context(), "fill/"+strconv.Itoa(i%keys), value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatalf("putting: %v", err)
		}
	}
	t.Fatal("the quota was never reached")
}

func put(t *testing.T, client *clientv3.Client) error {
	t.Helper()
	_, err := client.Put(t.Context(), "small", "value")
	return err
}

func TestFullOfHistory(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: t.TempDir(), QuotaBytes: tinyQuota}
	first := start(t, o)
	client := connect(t, first)
	fill(t, client, 1)
	if err := put(t, client); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("putting into a full store: %v, want %v", err, rpctypes.ErrNoSpace)
	}
	_ = client.Close()
	first.Close()

	second := start(t, o)
	client = connect(t, second)
	if err := put(t, client); err != nil {
		t.Errorf("putting after a restart: %v", err)
	}
	if got := get(t, client, "fill/0"); len(got) != 32<<10 {
		t.Errorf("the last value has %d bytes", len(got))
	}
}

func TestFullOfObjects(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: t.TempDir(), QuotaBytes: tinyQuota}
	first := start(t, o)
	client := connect(t, first)
	fill(t, client, 1000)
	_ = client.Close()
	first.Close()

	// Nothing to gain: reads and deletions work, writes do not, and a start is not refused.
	second := start(t, o)
	client = connect(t, second)
	if err := put(t, client); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("putting into a full store: %v, want %v", err, rpctypes.ErrNoSpace)
	}
	get(t, client, "fill/0")
	if _, err := client.Delete(t.Context(), "fill/", clientv3.WithPrefix()); err != nil {
		t.Fatalf("deleting from a full store: %v", err)
	}

	// The keeper finds the room by itself, while clients are connected.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go second.space.run(ctx, 10*time.Millisecond)
	deadline := time.Now().Add(20 * time.Second)
	for put(t, client) != nil {
		if time.Now().After(deadline) {
			t.Fatal("writes are refused although all was deleted")
		}
	}
	if size := second.member.etcd.Server.Backend().Size(); size > tinyQuota/2 {
		t.Errorf("the database has %d bytes after all was deleted", size)
	}
}

func TestLargerQuota(t *testing.T) {
	t.Parallel()
	o := Options{DataDir: t.TempDir(), QuotaBytes: tinyQuota}
	first := start(t, o)
	client := connect(t, first)
	fill(t, client, 1000)
	_ = client.Close()
	first.Close()

	o.QuotaBytes = 16 * tinyQuota // puts overshoot a quota by what etcd has not committed yet
	if err := put(t, connect(t, start(t, o))); err != nil {
		t.Errorf("putting with a larger quota: %v", err)
	}
}
