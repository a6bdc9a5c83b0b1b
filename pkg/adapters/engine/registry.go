// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine knows the supported pairs of inference engine and cache: what each wires
// into engine pods, what it reserves there, and which remote tiers it can speak to.
package engine

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
	// ContainerName is the name that tells the engine's container from others.
	ContainerName() string
	// HashScheme names the way in which the engine hashes prefixes.
	HashScheme() string
	// HasKernelCheck says whether the native kernels of LMCache are checked in engine pods.
	HasKernelCheck() bool

	// inject writes what the integration needs into a pod. The container is that of the
	// engine in the same pod. After an error the pod is of no use.
	inject(spec *corev1.PodSpec, container *corev1.Container, wiring Wiring) error
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

// table is an adapter, entry by entry.
type table struct {
	pair          Pair
	reservedArgs  []string
	reservedEnv   []string
	hostOnly      bool
	protocols     []binding.Protocol
	containerName string
	hashScheme    string
	kernelCheck   bool
	injection     func(spec *corev1.PodSpec, container *corev1.Container, wiring Wiring) error
}

func (t table) Pair() Pair {
	return t.pair
}

func (t table) Name() string {
	return runtimeID(t.pair.Runtime) + "/" + string(t.pair.Type)
}

func (t table) ReservedArgs() []string {
	return slices.Clone(t.reservedArgs)
}

func (t table) ReservedEnv() []string {
	return slices.Clone(t.reservedEnv)
}

func (t table) SupportsBinding(b *binding.Binding) bool {
	if b == nil {
		return t.hostOnly
	}
	return slices.Contains(t.protocols, b.Protocol)
}

func (t table) ContainerName() string {
	return t.containerName
}

func (t table) HashScheme() string {
	return t.hashScheme
}

func (t table) HasKernelCheck() bool {
	return t.kernelCheck
}

func (t table) inject(spec *corev1.PodSpec, container *corev1.Container, wiring Wiring) error {
	return t.injection(spec, container, wiring)
}
