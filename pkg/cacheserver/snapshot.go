// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cacheserver is the client of the cache server: what it says of its index, whether
// it works, and which policies it is to follow.
package cacheserver

import "time"

// Snapshot is what the cache server's index held at one moment. The rows are in the
// server's order.
type Snapshot struct {
	Replicas []Replica
	Tenants  []Tenant
	// TotalPrefixes is the number of distinct prefix keys in the index.
	TotalPrefixes int64
	// HotPrefixes is how many of them are used often.
	HotPrefixes int64
}

// Replica is what the index knows of an engine pod. A row may hold statistics, or prefixes,
// or both.
type Replica struct {
	// ID is the name of the engine pod.
	ID string
	// Tenant is the namespace of the engine pod, empty when unknown.
	Tenant string

	CacheMemoryBytes int64
	// HitRate is from 0 to 1, and means nothing unless Reported.
	HitRate float32
	// Pressure is from 0 to 1: higher is more loaded.
	Pressure float32
	// LastUpdate is when statistics were last heard of, zero when never.
	LastUpdate time.Time

	// PrefixCount is the number of prefix keys that the replica holds.
	PrefixCount int64
	// LastEventAt is when the newest of them was reported, by the engine's clock; zero when
	// it holds none.
	LastEventAt time.Time

	// StatsReported says that statistics are held. Servers of old do not tell: see Reported.
	StatsReported bool
	// T2HitTokens and T2QueryTokens count over the replica's lifetime how many tokens the
	// second tier served and was asked for.
	T2HitTokens   int64
	T2QueryTokens int64
}

// Reported says whether the statistics of a replica are real, zeros included.
func (r *Replica) Reported() bool { return r.StatsReported || !r.LastUpdate.IsZero() }

// Tenant is what the index knows of a tenant.
type Tenant struct {
	// ID may be empty: that tenant has what was reported without one.
	ID string
	// IndexEntries is the number of distinct prefix keys of the tenant.
	IndexEntries int64
	// HitRate is from 0 to 1, and means nothing unless Reported.
	HitRate float32
	// HitRateReported says that a replica of the tenant had statistics. Servers of old do
	// not tell: see Reported.
	HitRateReported bool
}

// Reported says whether the hit rate of a tenant is real. A zero of a server that does not
// tell may be the lack of one.
func (t *Tenant) Reported() bool { return t.HitRateReported || t.HitRate != 0 }
