// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CacheTenant names a tenant of the cluster's cache index and its quota.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +k8s:supportsSubresource="/status"
type CacheTenant struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard object metadata.
	// +optional
	// +k8s:opaqueType
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the tenant.
	// +optional
	Spec CacheTenantSpec `json:"spec,omitempty"`

	// status is the observed state of the tenant, written by the control plane.
	// +optional
	Status CacheTenantStatus `json:"status,omitempty"`
}

// CacheTenantList is a list of CacheTenants.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheTenantList struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard list metadata.
	// +optional
	// +k8s:opaqueType
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the CacheTenants of the list.
	Items []CacheTenant `json:"items"`
}

// IsolationMode says how tenants are kept apart.
//
// +enum
// +k8s:enum
type IsolationMode string

const (
	// IsolationModeFairness shares the index and evicts from tenants above their quota
	// first.
	IsolationModeFairness IsolationMode = "Fairness"
)

// CacheTenantSpec is the desired state of a tenant.
type CacheTenantSpec struct {
	// tenantID is the identity under which the tenant's index entries are kept. Required,
	// and unique in the namespace. inferencecache.io/probe is reserved and rejected.
	// +required
	// +k8s:required
	TenantID string `json:"tenantID"`

	// quota bounds what the tenant may hold.
	// +optional
	// +k8s:optional
	Quota *TenantQuota `json:"quota,omitempty"`

	// isolationMode says how tenants are kept apart: Fairness. Defaults to Fairness.
	// +optional
	// +k8s:optional
	// +default="Fairness"
	IsolationMode IsolationMode `json:"isolationMode,omitempty"`

	// crypto is reserved: it may be an empty object, any member is rejected.
	// +optional
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	Crypto map[string]runtime.RawExtension `json:"crypto,omitzero"`
}

// TenantQuota bounds what a tenant may hold.
type TenantQuota struct {
	// maxIndexEntries is the number of index entries that the tenant may hold, 0 or more;
	// 0 is a real bound. Without it there is none.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	MaxIndexEntries *int64 `json:"maxIndexEntries,omitempty"`
}

// CacheTenantStatus is the observed state of a tenant.
type CacheTenantStatus struct {
	// observedGeneration is the metadata.generation that was last acted on, 0 or more.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// indexEntries is the number of index entries that the tenant holds. Absent when it
	// was not counted yet.
	// +optional
	// +k8s:optional
	IndexEntries *int64 `json:"indexEntries,omitempty"`

	// conditions are the latest observations.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
