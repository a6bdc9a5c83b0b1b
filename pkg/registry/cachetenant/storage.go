// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachetenant

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

// NewREST returns the storage of cachetenants and of their status.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*resource.REST, *resource.StatusREST, error) {
	strategy := strategy{Strategy: resource.NewStrategy(scheme)}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &inferencecache.CacheTenant{} },
		NewListFunc:               func() runtime.Object { return &inferencecache.CacheTenantList{} },
		DefaultQualifiedResource:  inferencecache.Resource("cachetenants"),
		SingularQualifiedResource: inferencecache.Resource("cachetenant"),
		CreateStrategy:            &strategy,
		UpdateStrategy:            &strategy,
		DeleteStrategy:            &strategy,
		ResetFieldsStrategy:       &strategy,
		TableConvertor:            table,
	}
	live, err := resource.NewLive(store, options)
	if err != nil {
		return nil, nil, err
	}
	strategy.siblings = live.List
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, nil, err
	}
	return resource.NewREST(store, live, "ct"), resource.NewStatusREST(store, statusStrategy{strategy: strategy}), nil
}
