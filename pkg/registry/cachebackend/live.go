// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

// Live reads CacheBackends as they are at this moment.
type Live struct {
	list resource.ListFunc
}

// InNamespace returns the backends of one namespace. They are nobody else's copies.
func (l Live) InNamespace(ctx context.Context, namespace string) ([]inferencecache.CacheBackend, error) {
	list, err := l.list(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return list.(*inferencecache.CacheBackendList).Items, nil
}
