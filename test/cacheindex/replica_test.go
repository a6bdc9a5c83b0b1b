// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"inferencecache.io/inferencecache/test/cacheserver"
	"inferencecache.io/inferencecache/test/cluster"
)

// replica is an API server beside others, on the etcd of the cluster.
type replica struct {
	*cluster.Cluster
	extra []string
}

// snapshotURL is where a replica reads the index. The cache server ignores the query, by which tests tell the replicas apart.
func snapshotURL(number int) string {
	return fmt.Sprintf("%s?replica=%d", env.server.URL(cacheserver.SnapshotPath), number)
}

// newReplica starts an API server on ports of its own, and waits until it is ready.
func newReplica(ctx context.Context, number int, store *cluster.Store) (*replica, error) {
	own := *env.cluster.APIServer
	own.Log = filepath.Join(env.dir, fmt.Sprintf("replica-%d.log", number))
	own.Args = nil
	for _, arg := range env.cluster.APIServer.Args {
		flag, _, _ := strings.Cut(arg, "=")
		if flag == "--secure-port" || flag == "--webhook-port" {
			port, err := cluster.FreePort()
			if err != nil {
				return nil, err
			}
			if flag == "--secure-port" {
				own.Port = port
			}
			arg = fmt.Sprintf("%s=%d", flag, port)
		}
		own.Args = append(own.Args, arg)
	}
	r := &replica{
		Cluster: &cluster.Cluster{Info: env.cluster.Info},
		extra:   append(store.APIServerArgs(), "--server-snapshot-url="+snapshotURL(number), "--server-token-file="+env.tokenFile()),
	}
	r.APIServer = &own
	return r, r.start(ctx)
}

func (r *replica) start(ctx context.Context) error {
	if err := r.StartAPIServer(r.extra...); err != nil {
		return err
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if r.APIServerPID() == 0 {
			return false, fmt.Errorf("the replica has ended:\n%s", r.APIServerLogTail())
		}
		last = r.APIServerReady(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for a replica: %w (last: %v)", err, last)
	}
	return nil
}

// restart replaces the process while the others serve.
func (r *replica) restart(t *testing.T) {
	t.Helper()
	env.balancer.take(r, false)
	if err := r.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := r.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	env.balancer.take(r, true)
}
