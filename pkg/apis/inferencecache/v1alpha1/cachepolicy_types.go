// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CachePolicy tunes cache-aware lookups for its namespace. A namespace has at most one:
// a second one is rejected.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +k8s:supportsSubresource="/status"
type CachePolicy struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard object metadata.
	// +optional
	// +k8s:opaqueType
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired policy. When it is left out, every field has its default.
	// +optional
	Spec CachePolicySpec `json:"spec,omitempty"`

	// status is reserved; nothing writes it today.
	// +optional
	Status CachePolicyStatus `json:"status,omitempty"`
}

// CachePolicyList is a list of CachePolicies.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CachePolicyList struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard list metadata.
	// +optional
	// +k8s:opaqueType
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the CachePolicies of the list.
	Items []CachePolicy `json:"items"`
}

// EvictionPolicy says which index entries are dropped first.
//
// +enum
// +k8s:enum
type EvictionPolicy string

const (
	// EvictionPolicyLRU drops what was used least recently.
	EvictionPolicyLRU EvictionPolicy = "LRU"
	// EvictionPolicyLFU drops what was used least often.
	EvictionPolicyLFU EvictionPolicy = "LFU"
)

// AffinityRouting switches routing by cache affinity.
//
// +enum
// +k8s:enum
type AffinityRouting string

const (
	// AffinityRoutingEnabled routes by cache affinity.
	AffinityRoutingEnabled AffinityRouting = "Enabled"
	// AffinityRoutingDisabled does not.
	AffinityRoutingDisabled AffinityRouting = "Disabled"
)

// CachePolicySpec is the desired policy of a namespace.
type CachePolicySpec struct {
	// eviction says which index entries are dropped first: LRU or LFU. Defaults to LRU.
	// +optional
	// +k8s:optional
	// +default="LRU"
	Eviction EvictionPolicy `json:"eviction,omitempty"`

	// evictionTTL is how long an unused index entry is kept, a duration above 0 such as
	// 30m. When unset, 30m is used; the value is not filled in.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	EvictionTTL *metav1.Duration `json:"evictionTTL,omitempty"`

	// minimumPrefixTokens is the number of tokens, 0 or more, below which a prompt is not
	// looked up.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	MinimumPrefixTokens *int32 `json:"minimumPrefixTokens,omitempty"`

	// minimumMatchedTokens is the number of matched tokens, 0 or more, below which a
	// match is ignored. Defaults to 64.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +default=64
	MinimumMatchedTokens *int32 `json:"minimumMatchedTokens,omitempty"`

	// routingFloorScore is the score below which no replica is recommended: a decimal
	// number as a string, with at most 8 digits before and 6 after the point, without
	// sign, exponent or leading zeros. Defaults to "0.1".
	// +optional
	// +k8s:optional
	// +default="0.1"
	RoutingFloorScore *string `json:"routingFloorScore,omitempty"`

	// lookupTimeoutMs is the time that a lookup may take, in milliseconds, 0 or more.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	LookupTimeoutMs *int32 `json:"lookupTimeoutMs,omitempty"`

	// strategy switches parts of the lookup.
	// +optional
	// +k8s:optional
	Strategy *LookupStrategy `json:"strategy,omitempty"`

	// affinityRouting is Enabled or Disabled. Defaults to Enabled.
	// +optional
	// +k8s:optional
	// +default="Enabled"
	AffinityRouting *AffinityRouting `json:"affinityRouting,omitempty"`
}

// LookupStrategy switches parts of the lookup.
type LookupStrategy struct {
	// enableChainMatching matches chains of blocks. Defaults to true.
	// +optional
	// +k8s:optional
	// +default=true
	EnableChainMatching *bool `json:"enableChainMatching,omitempty"`

	// requireChain accepts nothing but chain matches; it is rejected together with
	// enableChainMatching: false. Defaults to false.
	// +optional
	// +k8s:optional
	// +default=false
	RequireChain *bool `json:"requireChain,omitempty"`

	// enableTenantHot prefers replicas on which the tenant is hot when nothing matches.
	// Defaults to true.
	// +optional
	// +k8s:optional
	// +default=true
	EnableTenantHot *bool `json:"enableTenantHot,omitempty"`
}

// CachePolicyStatus is reserved; nothing writes it today.
type CachePolicyStatus struct {
	// observedGeneration is the metadata.generation that was last acted on, 0 or more.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
