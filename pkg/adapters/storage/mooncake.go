// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// mooncake is the master of a Mooncake store.
type mooncake struct{}

func (mooncake) Name() v1alpha1.StorageProvider {
	return v1alpha1.StorageProviderMooncake
}

func (mooncake) Protocol() binding.Protocol {
	return binding.ProtocolMooncakeStore
}

// Singleton always holds: masters keep their metadata apart, and a second one on the same
// node collides with the host ports of the first.
func (mooncake) Singleton(Usage) bool {
	return true
}
