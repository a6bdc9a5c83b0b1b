// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package inferencecache

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the name of the API group.
const GroupName = "inferencecache.io"

// SchemeGroupVersion is the internal version of the group.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the internal types.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&CacheBackend{}, &CacheBackendList{},
		&CachePolicy{}, &CachePolicyList{},
		&CacheTenant{}, &CacheTenantList{},
		&CacheIndex{}, &CacheIndexList{},
	)
	return nil
}

// Kind qualifies a kind of the internal version with the API group.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource qualifies a resource name with the API group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// Category is the kubectl category that every kind of the group belongs to.
const Category = "inferencecache"
