// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// lmCacheServer is the stand-alone LMCache server.
type lmCacheServer struct{}

func (lmCacheServer) Name() v1alpha1.StorageProvider {
	return v1alpha1.StorageProviderLMCacheServer
}

func (lmCacheServer) Protocol() binding.Protocol {
	return binding.ProtocolLM
}

func (lmCacheServer) Singleton(Usage) bool {
	return false
}
