// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

var (
	knownRuntimes   = []v1alpha1.Runtime{v1alpha1.RuntimeVLLM, v1alpha1.RuntimeSGLang}
	knownTypes      = []v1alpha1.CacheType{v1alpha1.CacheTypeLMCache, v1alpha1.CacheTypeSGLangHiCache}
	knownModes      = []v1alpha1.IntegrationMode{v1alpha1.IntegrationModeOffload, v1alpha1.IntegrationModeEventsOnly}
	knownOwnerships = []v1alpha1.StorageOwnership{v1alpha1.StorageOwnershipManaged, v1alpha1.StorageOwnershipExternal}
	knownRoles      = []v1alpha1.IntegrationRole{
		v1alpha1.IntegrationRoleReadOnly, v1alpha1.IntegrationRoleWriteOnly, v1alpha1.IntegrationRoleReadWrite,
	}
)

// candidate is a CacheBackend under validation, with what several rules ask about it. The
// fields below hold the served values of what the spec says. One that is empty is missing
// or unknown, which generated code reports, so rules that depend on it have nothing to add.
type candidate struct {
	spec      *inferencecache.CacheBackendSpec
	namespace string

	runtime   v1alpha1.Runtime
	cacheType v1alpha1.CacheType
	mode      v1alpha1.IntegrationMode
	role      v1alpha1.IntegrationRole
	provider  v1alpha1.StorageProvider
	ownership v1alpha1.StorageOwnership

	// adapter is nil when the runtime or the type is not known, or their pair is not
	// supported.
	adapter engine.Adapter
}

// newCandidate tells the known values of a spec from the others.
func newCandidate(cb *inferencecache.CacheBackend) *candidate {
	request := classifyRequest(&cb.Spec)
	c := &candidate{
		spec:      &cb.Spec,
		namespace: cb.Namespace,
		runtime:   known(knownRuntimes, request.Runtime),
		cacheType: known(knownTypes, request.Type),
		mode:      known(knownModes, request.Mode),
	}
	if integration := cb.Spec.Integration; integration != nil {
		c.role = known(knownRoles, v1alpha1.IntegrationRole(integration.Role))
	}
	if remote := request.RemoteStorage; remote != nil {
		c.provider = known(storage.Names(), remote.Provider)
		c.ownership = known(knownOwnerships, remote.Ownership)
	}
	if c.runtime != "" && c.cacheType != "" {
		c.adapter, _ = engine.Lookup(c.runtime, c.cacheType)
	}
	return c
}

func known[T comparable](values []T, value T) T {
	if slices.Contains(values, value) {
		return value
	}
	var none T
	return none
}

// singleton says whether the remote tier must not have more than one replica. A provider
// for which that depends on the rest of the spec is not asked about a spec with unknown
// values.
func (c *candidate) singleton() bool {
	provider, found := storage.Lookup(c.provider)
	if !found {
		return false
	}
	usage := storage.Usage{Runtime: c.runtime, Type: c.cacheType, Mode: c.mode, Ownership: c.ownership}
	if c.runtime == "" || c.cacheType == "" || c.mode == "" || c.ownership == "" {
		usage = storage.Usage{}
	}
	return provider.Singleton(usage)
}

func (c *candidate) managed() bool {
	return c.ownership == v1alpha1.StorageOwnershipManaged
}

func (c *candidate) external() bool {
	return c.ownership == v1alpha1.StorageOwnershipExternal
}

func (c *candidate) hiCache() bool {
	return c.cacheType == v1alpha1.CacheTypeSGLangHiCache
}

func (c *candidate) eventsOnly() bool {
	return c.mode == v1alpha1.IntegrationModeEventsOnly
}

func (c *candidate) engineHostNetwork() bool {
	return c.spec.Integration != nil && c.spec.Integration.EngineHostNetwork
}

// overrides returns the engine overrides, empty when the spec has none.
func (c *candidate) overrides() inferencecache.EngineOverrides {
	if c.spec.Integration == nil || c.spec.Integration.EngineOverrides == nil {
		return inferencecache.EngineOverrides{}
	}
	return *c.spec.Integration.EngineOverrides
}
