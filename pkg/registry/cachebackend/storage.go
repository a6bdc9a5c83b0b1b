// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

// NewREST returns the storage of cachebackends and of their status, and a live view of it
// for those who cannot wait for a cache.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter, clock clock.PassiveClock) (*resource.REST, *resource.StatusREST, Live, error) {
	strategy := strategy{Strategy: resource.NewStrategy(scheme), clock: clock}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &inferencecache.CacheBackend{} },
		NewListFunc:               func() runtime.Object { return &inferencecache.CacheBackendList{} },
		DefaultQualifiedResource:  inferencecache.Resource("cachebackends"),
		SingularQualifiedResource: inferencecache.Resource("cachebackend"),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            table,
	}
	live, err := resource.NewLive(store, options)
	if err != nil {
		return nil, nil, Live{}, err
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, nil, Live{}, err
	}
	status := resource.NewStatusREST(store, statusStrategy{strategy: strategy})
	return resource.NewREST(store, live, "cb"), status, Live{list: live.List}, nil
}
