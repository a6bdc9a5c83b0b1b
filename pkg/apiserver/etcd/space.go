// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// roomPercent is how much of the quota may be in use for writes to be let in again. Nearer to the quota they would soon
// be refused again, after another defragmentation that stops everything.
const roomPercent = 90

// spaceKeeper does for a full database what an operator does with etcdctl elsewhere: nobody but this process reaches
// this one. etcd refuses all writes once its file reaches the quota, and goes on refusing after objects have been
// deleted, until someone compacts the history, defragments the file and disarms the alarm.
type spaceKeeper struct {
	server *etcdserver.EtcdServer
	client *clientv3.Client
	quota  int64
	// futile is the revision at which there was no room to be made. While writes are refused only deletions change it.
	futile int64
}

func newSpaceKeeper(server *etcdserver.EtcdServer, quota int64) *spaceKeeper {
	return &spaceKeeper{server: server, client: v3client.New(server), quota: quota}
}

// run looks at the database until ctx ends.
func (k *spaceKeeper) run(ctx context.Context, interval time.Duration) {
	// The first look was taken at start.
	_ = wait.PollUntilContextCancel(ctx, interval, false, func(ctx context.Context) (bool, error) {
		k.check(ctx)
		return false, nil
	})
}

// check is relieve for those who cannot do more than log its error: reads and deletions work in spite of it.
func (k *spaceKeeper) check(ctx context.Context) {
	if err := k.relieve(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Making room in the embedded etcd failed")
	}
}

// relieve lets writes in again if the database is full and there is room to be made. Without the alarm it does nothing.
func (k *spaceKeeper) relieve(ctx context.Context) error {
	alarms, err := k.fullAlarms(ctx)
	if err != nil || len(alarms) == 0 {
		return err
	}
	revision, before := k.server.KV().Rev(), k.server.Backend().Size()
	if revision == k.futile {
		return nil
	}
	if err := k.compact(ctx, revision); err != nil {
		return err
	}
	// No smaller step tells how much is in use: etcd counts pages that the last compaction freed as used for a while.
	if err := k.server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragmenting: %w", err)
	}
	after := k.server.Backend().Size()
	log := klog.FromContext(ctx).WithValues("quotaBytes", k.quota, "beforeBytes", before, "afterBytes", after)
	if after > k.quota/100*roomPercent {
		k.futile = revision
		log.Info("The embedded etcd is full and refuses writes: delete objects or raise its quota")
		return nil
	}
	for _, alarm := range alarms {
		if _, err := k.client.AlarmDisarm(ctx, alarm); err != nil {
			return fmt.Errorf("disarming the NOSPACE alarm: %w", err)
		}
	}
	log.Info("Made room in the embedded etcd, which takes writes again")
	return nil
}

// fullAlarms are the alarms that say that the quota was reached.
func (k *spaceKeeper) fullAlarms(ctx context.Context) ([]*clientv3.AlarmMember, error) {
	list, err := k.client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing alarms: %w", err)
	}
	var full []*clientv3.AlarmMember
	for _, alarm := range list.Alarms {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			full = append(full, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm})
		}
	}
	return full, nil
}

// compact drops all history before a revision. Clients that ask for some of it relist, which costs less than writes that fail.
func (k *spaceKeeper) compact(ctx context.Context, revision int64) error {
	_, err := k.client.Compact(ctx, revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compacting: %w", err)
	}
	return nil
}
