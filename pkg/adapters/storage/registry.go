// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage knows the providers of remote tiers: what engines speak to them, and
// what runs when the control plane provisions one.
package storage

import (
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Usage says what a tier is used for.
type Usage struct {
	Runtime   v1alpha1.Runtime
	Type      v1alpha1.CacheType
	Mode      v1alpha1.IntegrationMode
	Ownership v1alpha1.StorageOwnership
}

// Provider is what the control plane knows about a provider of remote tiers.
type Provider interface {
	// Name is the provider's value in the API.
	Name() v1alpha1.StorageProvider
	// Protocol is what engines speak to the tier.
	Protocol() binding.Protocol
	// Singleton says whether the tier must not have more than one replica.
	Singleton(usage Usage) bool

	// describe says what runs when the tier is provisioned. The resources of the server are
	// always there.
	describe(server Server) tier
}

// providers lists every provider, in the order of messages.
var providers = []Provider{
	redis{},
	lmCacheServer{},
	mooncake{},
}

// Lookup returns the provider of a name, and false if there is none.
func Lookup(name v1alpha1.StorageProvider) (Provider, bool) {
	for _, provider := range providers {
		if provider.Name() == name {
			return provider, true
		}
	}
	return nil, false
}

// Names lists the names of all providers, always in the same order.
func Names() []v1alpha1.StorageProvider {
	names := make([]v1alpha1.StorageProvider, 0, len(providers))
	for _, provider := range providers {
		names = append(names, provider.Name())
	}
	return names
}
