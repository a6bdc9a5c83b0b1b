// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"encoding/json"
	"fmt"
)

// PolicyVersion is the version of PolicyState. It must be sent: what is absent means other
// things to a server that is told an older one.
const PolicyVersion = 7

// PolicyState is everything that the cache server is to follow. What is not in it goes back
// to the server's defaults.
type PolicyState struct {
	Version int `json:"version"`
	// Policies has at most one entry for each namespace, and is never null.
	Policies []Policy `json:"policies"`
	// Tenants has at most one entry for each tenant.
	Tenants []TenantQuota `json:"tenants,omitempty"`
}

// Policy is how the index serves the engines of a namespace.
type Policy struct {
	Namespace string `json:"namespace"`
	// EvictionTTL is in nanoseconds.
	EvictionTTL          int64 `json:"evictionTTL,omitempty"`
	MinimumPrefixTokens  int32 `json:"minimumPrefixTokens,omitempty"`
	MinimumMatchedTokens int32 `json:"minimumMatchedTokens,omitempty"`
	// RoutingFloorScore is sent when it is 0: absent means the server's default.
	RoutingFloorScore *float32 `json:"routingFloorScore,omitempty"`
	LookupTimeoutMs   int32    `json:"lookupTimeoutMs,omitempty"`
	// Eviction is lru or lfu.
	Eviction        string          `json:"eviction"`
	Strategy        *PolicyStrategy `json:"strategy,omitempty"`
	AffinityRouting *bool           `json:"affinityRouting,omitempty"`
}

// PolicyStrategy holds switches that are at the server's defaults when they are nil.
type PolicyStrategy struct {
	EnableChainMatching *bool `json:"enableChainMatching,omitempty"`
	RequireChain        *bool `json:"requireChain,omitempty"`
	EnableTenantHot     *bool `json:"enableTenantHot,omitempty"`
}

// TenantQuota is how much of the index a tenant may use.
type TenantQuota struct {
	TenantID string `json:"tenantID"`
	// MaxIndexEntries of 0 admits nothing.
	MaxIndexEntries int64  `json:"maxIndexEntries"`
	IsolationMode   string `json:"isolationMode,omitempty"`
}

// encode gives equal bytes for equal states.
func (s PolicyState) encode() ([]byte, error) {
	if s.Policies == nil {
		s.Policies = []Policy{}
	}
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the policies: %w", err)
	}
	return body, nil
}
