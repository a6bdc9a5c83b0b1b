// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"strings"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// redis is Redis as a shared second level.
type redis struct{}

func (redis) Name() v1alpha1.StorageProvider {
	return v1alpha1.StorageProviderRedis
}

func (redis) Protocol() binding.Protocol {
	return binding.ProtocolRESP
}

// Singleton holds for a provisioned Redis behind SGLang's LMCache workers: replicas would
// be independent stores behind one address, and a worker's keys would be spread over them
// at random. With events only there is no tier at all.
func (redis) Singleton(usage Usage) bool {
	return strings.EqualFold(string(usage.Runtime), string(v1alpha1.RuntimeSGLang)) &&
		(usage.Type == v1alpha1.CacheTypeLMCache || usage.Type == "") &&
		usage.Mode != v1alpha1.IntegrationModeEventsOnly &&
		usage.Ownership == v1alpha1.StorageOwnershipManaged
}
