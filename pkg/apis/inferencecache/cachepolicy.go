// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package inferencecache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CachePolicy tunes cache-aware lookups for its namespace. A namespace has at most one:
// a second one is rejected.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CachePolicy struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   CachePolicySpec
	Status CachePolicyStatus
}

// CachePolicyList is a list of CachePolicies.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CachePolicyList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []CachePolicy
}

// EvictionPolicy says which index entries are dropped first.
type EvictionPolicy string

const (
	// EvictionPolicyLRU drops what was used least recently.
	EvictionPolicyLRU EvictionPolicy = "LRU"
	// EvictionPolicyLFU drops what was used least often.
	EvictionPolicyLFU EvictionPolicy = "LFU"
)

// AffinityRouting switches routing by cache affinity.
type AffinityRouting string

const (
	// AffinityRoutingEnabled routes by cache affinity.
	AffinityRoutingEnabled AffinityRouting = "Enabled"
	// AffinityRoutingDisabled does not.
	AffinityRoutingDisabled AffinityRouting = "Disabled"
)

// CachePolicySpec is the desired policy of a namespace.
type CachePolicySpec struct {
	Eviction             EvictionPolicy
	EvictionTTL          *metav1.Duration
	MinimumPrefixTokens  *int32
	MinimumMatchedTokens *int32
	RoutingFloorScore    *string
	LookupTimeoutMs      *int32
	Strategy             *LookupStrategy
	AffinityRouting      *AffinityRouting
}

// LookupStrategy switches parts of the lookup.
type LookupStrategy struct {
	EnableChainMatching *bool
	RequireChain        *bool
	EnableTenantHot     *bool
}

// CachePolicyStatus is reserved; nothing writes it today.
type CachePolicyStatus struct {
	ObservedGeneration int64
	Conditions         []metav1.Condition
}
