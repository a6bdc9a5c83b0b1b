// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine knows the supported pairs of inference engine and cache: what each wires
// into engine pods, what it reserves there, and which remote tiers it can speak to.
package engine

import (
	"slices"
	"strings"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Pair is a runtime and the cache inside it.
type Pair struct {
	Runtime v1alpha1.Runtime
	Type    v1alpha1.CacheType
}

// String spells the pair as the two fields of a manifest do.
func (p Pair) String() string {
	return string(p.Runtime) + "/" + string(p.Type)
}

// Adapter is what the control plane knows about a supported pair.
type Adapter interface {
	// Pair is the pair that the adapter is for.
	Pair() Pair
	// Name names the adapter in messages.
	Name() string
	// ReservedArgs are the flags of the engine that the integration cannot work without.
	ReservedArgs() []string
	// ReservedEnv are the variables of the engine that the integration cannot work
	// without.
	ReservedEnv() []string
	// SupportsBinding says whether the engine can use the remote tier of the binding, or,
	// for nil, whether it can do without one. The endpoint does not matter.
	SupportsBinding(b *binding.Binding) bool
}

// adapters lists every adapter, in the order of messages.
var adapters = []Adapter{
	vllmLMCache,
	sglangLMCache,
	sglangHiCache,
}

// Lookup returns the adapter of a pair. Objects that were stored under laxer rules are
// looked up too, so the case of the runtime does not matter and an empty type is LMCache.
func Lookup(runtime v1alpha1.Runtime, cacheType v1alpha1.CacheType) (Adapter, bool) {
	if cacheType == "" {
		cacheType = v1alpha1.CacheTypeLMCache
	}
	for _, adapter := range adapters {
		pair := adapter.Pair()
		if runtimeID(pair.Runtime) == runtimeID(runtime) && pair.Type == cacheType {
			return adapter, true
		}
	}
	return nil, false
}

// SupportedPairs lists the pairs that have an adapter, always in the same order.
func SupportedPairs() []Pair {
	pairs := make([]Pair, 0, len(adapters))
	for _, adapter := range adapters {
		pairs = append(pairs, adapter.Pair())
	}
	return pairs
}

func runtimeID(runtime v1alpha1.Runtime) string {
	return strings.ToLower(string(runtime))
}

// capabilities is the part of an adapter that is a table.
type capabilities struct {
	pair         Pair
	reservedArgs []string
	reservedEnv  []string
	hostOnly     bool
	protocols    []binding.Protocol
}

func (c capabilities) Pair() Pair {
	return c.pair
}

func (c capabilities) Name() string {
	return runtimeID(c.pair.Runtime) + "/" + string(c.pair.Type)
}

func (c capabilities) ReservedArgs() []string {
	return slices.Clone(c.reservedArgs)
}

func (c capabilities) ReservedEnv() []string {
	return slices.Clone(c.reservedEnv)
}

func (c capabilities) SupportsBinding(b *binding.Binding) bool {
	if b == nil {
		return c.hostOnly
	}
	return slices.Contains(c.protocols, b.Protocol)
}
