// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Classify says which path a stored or incoming backend is on.
func Classify(cb *inferencecache.CacheBackend) adapters.Classification {
	return adapters.Classify(classifyRequest(&cb.Spec))
}

// classifyRequest is the one place where the hub's values become served ones. Unknown
// values are passed on, since a stored object may hold some.
func classifyRequest(spec *inferencecache.CacheBackendSpec) adapters.Request {
	request := adapters.Request{
		Runtime: v1alpha1.Runtime(spec.Runtime),
		Type:    v1alpha1.CacheType(spec.Type),
	}
	if spec.Integration != nil {
		request.Mode = v1alpha1.IntegrationMode(spec.Integration.Mode)
	}
	if remote := spec.RemoteStorage; remote != nil {
		request.RemoteStorage = &adapters.RemoteStorage{
			Provider:  v1alpha1.StorageProvider(remote.Provider),
			Ownership: v1alpha1.StorageOwnership(remote.Ownership),
			Endpoint:  remote.Endpoint,
		}
	}
	return request
}
