// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachepolicy

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

// NewREST returns the storage of cachepolicies and of their status.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*resource.REST, *resource.StatusREST, error) {
	strategy := strategy{Strategy: resource.NewStrategy(scheme)}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &inferencecache.CachePolicy{} },
		NewListFunc:               func() runtime.Object { return &inferencecache.CachePolicyList{} },
		DefaultQualifiedResource:  inferencecache.Resource("cachepolicies"),
		SingularQualifiedResource: inferencecache.Resource("cachepolicy"),
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
	return resource.NewREST(store, live, "cpol"), resource.NewStatusREST(store, statusStrategy{strategy: strategy}), nil
}
