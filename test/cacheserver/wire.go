// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Snapshot is an index as the real server writes it: sorted, with null for no rows and the number of prefixes that the
// tenants add up to.
type Snapshot struct {
	Replicas []Replica
	Tenants  []Tenant
}

// Replica is a row of an index. A zero time is written as such, and not left out.
type Replica struct {
	ID               string    `json:"replicaId"`
	Tenant           string    `json:"tenant,omitempty"`
	CacheMemoryBytes int64     `json:"cacheMemoryBytes"`
	HitRate          float32   `json:"hitRate"`
	Pressure         float32   `json:"pressure"`
	LastUpdate       time.Time `json:"lastUpdate"`
	PrefixCount      int64     `json:"prefixCount"`
	LastEventAt      time.Time `json:"lastEventAt"`
	StatsReported    bool      `json:"statsReported,omitempty"`
	T2HitTokens      int64     `json:"t2HitTokens,omitempty"`
	T2QueryTokens    int64     `json:"t2QueryTokens,omitempty"`
}

// Tenant is a row of an index.
type Tenant struct {
	ID              string  `json:"tenantId"`
	IndexEntries    int64   `json:"indexEntries"`
	HitRate         float32 `json:"hitRate"`
	HitRateReported bool    `json:"hitRateReported,omitempty"`
	MemoryUsed      int64   `json:"memoryUsed"`
}

// Encode returns the body of an answer.
func (s Snapshot) Encode() []byte {
	document := struct {
		Replicas      []Replica `json:"replicas"`
		Tenants       []Tenant  `json:"tenants"`
		TotalPrefixes int64     `json:"totalPrefixes"`
		HotPrefixes   int64     `json:"hotPrefixes"`
	}{Replicas: slices.Clone(s.Replicas), Tenants: slices.Clone(s.Tenants)}
	slices.SortStableFunc(document.Replicas, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
	})
	slices.SortStableFunc(document.Tenants, func(a, b Tenant) int { return cmp.Compare(a.ID, b.ID) })
	for _, tenant := range s.Tenants {
		document.TotalPrefixes += tenant.IndexEntries
	}
	return encode(document)
}

// ProbeRequest is the body of a probe.
type ProbeRequest struct {
	Backend     string `json:"backend"`
	Model       string `json:"model"`
	HashScheme  string `json:"hashScheme"`
	BackendType string `json:"backendType"`
}

// ProbeAnswer is the answer to a probe.
type ProbeAnswer struct {
	Backend string       `json:"backend"`
	Ingest  string       `json:"ingest"`
	Routing string       `json:"routing"`
	T2      string       `json:"t2"`
	Errors  []ProbeError `json:"errors,omitempty"`
}

// ProbeError says why a stage failed.
type ProbeError struct {
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// Passing answers a probe as a server does on which everything works.
func Passing(request ProbeRequest) ProbeAnswer {
	return ProbeAnswer{Backend: request.Backend, Ingest: "ok", Routing: "ok", T2: "skipped"}
}

// Failing answers a probe as a server does on which a stage (ingest, routing or t2) fails: the later ones are left out.
func Failing(stage, message string) func(ProbeRequest) ProbeAnswer {
	return func(request ProbeRequest) ProbeAnswer {
		answer := ProbeAnswer{
			Backend: request.Backend, Ingest: "ok", Routing: "ok", T2: "ok", Errors: []ProbeError{{Stage: stage, Message: message}},
		}
		switch stage {
		case "ingest":
			answer.Ingest, answer.Routing, answer.T2 = "failed", "skipped", "skipped"
		case "routing":
			answer.Routing, answer.T2 = "failed", "skipped"
		case "t2":
			answer.T2 = "failed"
		}
		return answer
	}
}

// Policies is the body of a push. What was not sent is nil.
type Policies struct {
	Version  int           `json:"version"`
	Policies []Policy      `json:"policies"`
	Tenants  []TenantQuota `json:"tenants"`
	// Raw is the body as it came.
	Raw []byte `json:"-"`
}

// Policy is what is to hold for a namespace.
type Policy struct {
	Namespace            string    `json:"namespace"`
	EvictionTTL          *int64    `json:"evictionTTL"`
	MinimumPrefixTokens  *int32    `json:"minimumPrefixTokens"`
	MinimumMatchedTokens *int32    `json:"minimumMatchedTokens"`
	RoutingFloorScore    *float32  `json:"routingFloorScore"`
	LookupTimeoutMs      *int32    `json:"lookupTimeoutMs"`
	Eviction             *string   `json:"eviction"`
	Strategy             *Strategy `json:"strategy"`
	AffinityRouting      *bool     `json:"affinityRouting"`
}

// Strategy is a part of Policy.
type Strategy struct {
	EnableChainMatching *bool `json:"enableChainMatching"`
	RequireChain        *bool `json:"requireChain"`
	EnableTenantHot     *bool `json:"enableTenantHot"`
}

// TenantQuota is how much of the index a tenant may use.
type TenantQuota struct {
	TenantID        string  `json:"tenantID"`
	MaxIndexEntries *int64  `json:"maxIndexEntries"`
	IsolationMode   *string `json:"isolationMode"`
}

// encode writes a value on a line of its own. It panics at what is no JSON, as NaN: the real server never sends it.
func encode(value any) []byte {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(value); err != nil {
		panic(err)
	}
	return body.Bytes()
}
