// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// The server keeps its own traces out of what it tells. A server that does not is helped.
const (
	reservedTenant        = "inferencecache.io/probe"
	reservedReplicaPrefix = "__probe-"
)

// replicaRow is a replica as the server writes it.
type replicaRow struct {
	ID               string    `json:"replicaId"`
	Tenant           recurring `json:"tenant"`
	CacheMemoryBytes int64     `json:"cacheMemoryBytes"`
	HitRate          float32   `json:"hitRate"`
	Pressure         float32   `json:"pressure"`
	LastUpdate       instant   `json:"lastUpdate"`
	PrefixCount      int64     `json:"prefixCount"`
	LastEventAt      instant   `json:"lastEventAt"`
	StatsReported    bool      `json:"statsReported"`
	T2HitTokens      int64     `json:"t2HitTokens"`
	T2QueryTokens    int64     `json:"t2QueryTokens"`
}

// tenantRow is a tenant as the server writes it. Its memoryUsed means nothing any more.
type tenantRow struct {
	ID              string  `json:"tenantId"`
	IndexEntries    int64   `json:"indexEntries"`
	HitRate         float32 `json:"hitRate"`
	HitRateReported bool    `json:"hitRateReported"`
}

func (d *snapshotDecoder) takeReplica(row *replicaRow) error {
	replica := Replica{
		ID:               row.ID,
		Tenant:           row.Tenant.value(),
		CacheMemoryBytes: max(0, row.CacheMemoryBytes),
		HitRate:          row.HitRate,
		Pressure:         row.Pressure,
		LastUpdate:       time.Time(row.LastUpdate),
		PrefixCount:      row.PrefixCount,
		LastEventAt:      time.Time(row.LastEventAt),
		StatsReported:    row.StatsReported,
		T2HitTokens:      max(0, row.T2HitTokens),
		T2QueryTokens:    max(0, row.T2QueryTokens),
	}
	*row = replicaRow{Tenant: recurring{text: row.Tenant.text}}
	if replica.Tenant != reservedTenant && !strings.HasPrefix(replica.ID, reservedReplicaPrefix) {
		d.snapshot.Replicas = append(d.snapshot.Replicas, replica)
	}
	return notNegative("prefixCount", replica.PrefixCount)
}

func (d *snapshotDecoder) takeTenant(row *tenantRow) error {
	tenant := Tenant(*row)
	*row = tenantRow{}
	if tenant.ID != reservedTenant {
		d.snapshot.Tenants = append(d.snapshot.Tenants, tenant)
	}
	return notNegative("indexEntries", tenant.IndexEntries)
}

// recurring is a string that is often the same as in the row before, and is then the same
// memory.
type recurring struct {
	text    string
	present bool
}

func (r *recurring) value() string {
	if !r.present {
		return ""
	}
	return r.text
}

func (r *recurring) UnmarshalText(text []byte) error {
	r.present = true
	if string(text) != r.text {
		r.text = string(text)
	}
	return nil
}

// instant is a time in UTC, whichever way it was written. Unlike time.Time it also takes one
// with characters that JSON has escaped.
type instant time.Time

func (i *instant) UnmarshalText(text []byte) error {
	var when time.Time
	if err := when.UnmarshalText(text); err != nil {
		// The error of package time repeats the value.
		return &json.UnmarshalTypeError{Value: "string", Type: reflect.TypeFor[time.Time]()}
	}
	when = when.UTC()
	if year := when.Year(); year < 1 || year > 9999 {
		when = time.Time{} // Nobody could read it when it is written again.
	}
	*i = instant(when)
	return nil
}

// ignored takes any value and keeps nothing of it.
type ignored struct{}

func (*ignored) UnmarshalJSON([]byte) error { return nil }
