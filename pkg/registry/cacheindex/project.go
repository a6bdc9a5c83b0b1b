// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"cmp"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// project returns the status that shows a snapshot, but for the time of its last change.
// observedServer is where the snapshot was read from.
func project(snapshot *cacheserver.Snapshot, observedServer string) inferencecache.CacheIndexStatus {
	return inferencecache.CacheIndexStatus{
		Replicas: projectReplicas(snapshot.Replicas),
		Tenants:  projectTenants(snapshot.Tenants),
		Prefixes: &inferencecache.IndexPrefixes{
			Summary: &inferencecache.IndexPrefixSummary{Total: snapshot.TotalPrefixes, Hot: snapshot.HotPrefixes},
		},
		ObservedServer: observedServer,
	}
}

// projectReplicas shows the rows that have statistics, by id. The key of the list is the
// name of the replica without its tenant, so of two rows with one name only that of the
// greatest tenant is shown.
func projectReplicas(rows []cacheserver.Replica) []inferencecache.IndexReplica {
	shown := make([]*cacheserver.Replica, 0, len(rows))
	for i := range rows {
		if !rows[i].LastUpdate.IsZero() {
			shown = append(shown, &rows[i])
		}
	}
	slices.SortStableFunc(shown, func(a, b *cacheserver.Replica) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.Tenant, a.Tenant))
	})
	shown = slices.CompactFunc(shown, func(a, b *cacheserver.Replica) bool { return a.ID == b.ID })

	replicas := make([]inferencecache.IndexReplica, 0, len(shown))
	for _, row := range shown {
		replica := inferencecache.IndexReplica{
			ID:               row.ID,
			Tenant:           row.Tenant,
			CacheMemoryBytes: row.CacheMemoryBytes,
			Pressure:         cacheserver.FormatRate(row.Pressure),
			LastUpdate:       metav1.NewTime(row.LastUpdate),
		}
		if row.Reported() {
			replica.HitRate = new(cacheserver.FormatRate(row.HitRate))
		}
		replicas = append(replicas, replica)
	}
	return replicas
}

// projectTenants keeps the order of the server. Its deprecated memory figure is not read:
// the field is always shown as 0.
func projectTenants(rows []cacheserver.Tenant) []inferencecache.IndexTenant {
	tenants := make([]inferencecache.IndexTenant, 0, len(rows))
	for i := range rows {
		row := &rows[i]
		tenant := inferencecache.IndexTenant{ID: row.ID, IndexEntries: new(row.IndexEntries)}
		if row.Reported() {
			tenant.HitRate = new(cacheserver.FormatRate(row.HitRate))
		}
		tenants = append(tenants, tenant)
	}
	return tenants
}

// sameButForTimes says whether two statuses tell the same. Replicas report all the time, so
// a moment at which one was heard of is no news by itself.
func sameButForTimes(a, b inferencecache.CacheIndexStatus) bool {
	return apiequality.Semantic.DeepEqual(withoutTimes(a), withoutTimes(b))
}

func withoutTimes(status inferencecache.CacheIndexStatus) inferencecache.CacheIndexStatus {
	status.LastUpdated = metav1.Time{}
	status.Replicas = slices.Clone(status.Replicas)
	for i := range status.Replicas {
		status.Replicas[i].LastUpdate = metav1.Time{}
	}
	return status
}
