// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package inferencecache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CacheTenant names a tenant of the cluster's cache index and its quota.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheTenant struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   CacheTenantSpec
	Status CacheTenantStatus
}

// CacheTenantList is a list of CacheTenants.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheTenantList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []CacheTenant
}

// IsolationMode says how tenants are kept apart.
type IsolationMode string

const (
	// IsolationModeFairness shares the index and evicts from tenants above their quota
	IsolationModeFairness IsolationMode = "Fairness"
)

// CacheTenantSpec is the desired state of a tenant.
type CacheTenantSpec struct {
	TenantID      string
	Quota         *TenantQuota
	IsolationMode IsolationMode
	Crypto        map[string]runtime.RawExtension
}

// TenantQuota bounds what a tenant may hold.
type TenantQuota struct {
	MaxIndexEntries *int64
}

// CacheTenantStatus is the observed state of a tenant.
type CacheTenantStatus struct {
	ObservedGeneration int64
	IndexEntries       *int64
	Conditions         []metav1.Condition
}
