// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding says how an engine reaches a remote tier: the protocol, the grammar of
// endpoints, and the verdict on an endpoint that an operator supplies.
package binding

import (
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Protocol is what an engine speaks to a remote tier.
type Protocol string

const (
	// ProtocolLM is the protocol of the stand-alone LMCache server.
	ProtocolLM Protocol = "lm"
	// ProtocolRESP is the protocol of Redis.
	ProtocolRESP Protocol = "resp"
	// ProtocolMooncakeStore is the protocol of a Mooncake store.
	ProtocolMooncakeStore Protocol = "mooncakestore"
)

// Binding ties an engine to a remote tier. A nil *Binding is the host-only binding: there
// is no remote tier to reach.
type Binding struct {
	Protocol Protocol
	// Endpoint is the address without white space around it. It is empty as long as
	// nobody knows it.
	Endpoint string
}

// ProtocolOf returns the protocol of a provider, and false for a provider that is not
// known.
func ProtocolOf(provider v1alpha1.StorageProvider) (Protocol, bool) {
	switch provider {
	case v1alpha1.StorageProviderLMCacheServer:
		return ProtocolLM, true
	case v1alpha1.StorageProviderRedis:
		return ProtocolRESP, true
	case v1alpha1.StorageProviderMooncake:
		return ProtocolMooncakeStore, true
	default:
		return "", false
	}
}
