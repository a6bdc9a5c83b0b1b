// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CacheIndex is a live view of the cluster's cache index. It is computed when it is read
// and cannot be written; the only object is cluster-default.
//
// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheIndex struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard object metadata.
	// +optional
	// +k8s:opaqueType
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is empty: the index has no desired state.
	// +optional
	Spec CacheIndexSpec `json:"spec,omitempty"`

	// status is the view of the index.
	// +optional
	Status CacheIndexStatus `json:"status,omitempty"`
}

// CacheIndexList is a list of CacheIndices.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheIndexList struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard list metadata.
	// +optional
	// +k8s:opaqueType
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the CacheIndices of the list.
	Items []CacheIndex `json:"items"`
}

// CacheIndexSpec is empty: the index has no desired state.
type CacheIndexSpec struct{}

// CacheIndexStatus is the view of the index.
type CacheIndexStatus struct {
	// replicas are the engine replicas that the cache server knows.
	// +optional
	// +listType=map
	// +listMapKey=id
	Replicas []IndexReplica `json:"replicas,omitempty"`

	// tenants are the tenants that the cache server knows.
	// +optional
	// +listType=map
	// +listMapKey=id
	Tenants []IndexTenant `json:"tenants,omitempty"`

	// prefixes counts the indexed prefixes.
	// +optional
	Prefixes *IndexPrefixes `json:"prefixes,omitempty"`

	// observedServer is the cache server that the view was read from.
	// +optional
	ObservedServer string `json:"observedServer,omitempty"`

	// lastUpdated is when the view last changed.
	// +optional
	// +k8s:opaqueType
	LastUpdated metav1.Time `json:"lastUpdated,omitzero"`
}

// IndexReplica is an engine replica that the cache server knows.
type IndexReplica struct {
	// id is the name of the engine pod. Of two pods with one name the one of the tenant that
	// comes last by name is shown.
	// +required
	ID string `json:"id"`

	// tenant is the tenant that the replica reports for, the namespace of the pod.
	// +optional
	Tenant string `json:"tenant,omitempty"`

	// cacheMemoryBytes is the memory that the replica's cache uses, in bytes.
	// +optional
	CacheMemoryBytes int64 `json:"cacheMemoryBytes,omitempty"`

	// hitRate is the replica's cache hit rate from 0 to 1. Absent when it was not
	// reported.
	// +optional
	HitRate *string `json:"hitRate,omitempty"`

	// pressure says how loaded the replica is, from 0 to 1.
	// +optional
	Pressure string `json:"pressure,omitempty"`

	// lastUpdate is when the replica was last heard of.
	// +optional
	// +k8s:opaqueType
	LastUpdate metav1.Time `json:"lastUpdate,omitzero"`
}

// IndexTenant is a tenant that the cache server knows.
type IndexTenant struct {
	// id is the tenant's identity. It may be empty.
	// +required
	ID string `json:"id"`

	// indexEntries is the number of index entries that the tenant holds.
	// +optional
	IndexEntries *int64 `json:"indexEntries,omitempty"`

	// hitRate is the tenant's cache hit rate from 0 to 1. Absent when it was not
	// reported.
	// +optional
	HitRate *string `json:"hitRate,omitempty"`

	// memoryUsed is deprecated and always 0: see cacheMemoryBytes of the replicas.
	// +optional
	MemoryUsed int64 `json:"memoryUsed"`
}

// IndexPrefixes counts the indexed prefixes.
type IndexPrefixes struct {
	// summary is the count over the whole index.
	// +optional
	Summary *IndexPrefixSummary `json:"summary,omitempty"`
}

// IndexPrefixSummary counts the prefixes of the whole index.
type IndexPrefixSummary struct {
	// total is the number of prefixes.
	// +required
	Total int64 `json:"total"`

	// hot is the number of prefixes that are used often.
	// +required
	Hot int64 `json:"hot"`
}
