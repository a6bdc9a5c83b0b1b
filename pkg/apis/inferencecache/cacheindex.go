// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package inferencecache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CacheIndex is a live view of the cluster's cache index. It is computed when it is read
// and cannot be written; the only object is cluster-default.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheIndex struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   CacheIndexSpec
	Status CacheIndexStatus
}

// CacheIndexList is a list of CacheIndices.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheIndexList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []CacheIndex
}

// CacheIndexSpec is empty: the index has no desired state.
type CacheIndexSpec struct{}

// CacheIndexStatus is the view of the index.
type CacheIndexStatus struct {
	Replicas       []IndexReplica
	Tenants        []IndexTenant
	Prefixes       *IndexPrefixes
	ObservedServer string
	LastUpdated    metav1.Time
}

// IndexReplica is an engine replica that the cache server knows.
type IndexReplica struct {
	ID               string
	Tenant           string
	CacheMemoryBytes int64
	HitRate          *string
	Pressure         string
	LastUpdate       metav1.Time
}

// IndexTenant is a tenant that the cache server knows.
type IndexTenant struct {
	ID           string
	IndexEntries *int64
	HitRate      *string
	MemoryUsed   int64
}

// IndexPrefixes counts the indexed prefixes.
type IndexPrefixes struct {
	Summary *IndexPrefixSummary
}

// IndexPrefixSummary counts the prefixes of the whole index.
type IndexPrefixSummary struct {
	Total int64
	Hot   int64
}
