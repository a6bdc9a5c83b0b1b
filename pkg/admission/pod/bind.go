// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"strings"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// refusal is why a backend cannot wire a pod.
type refusal struct {
	reason  Reason
	message string
	// warning is what whoever creates the pod is told. It is the message, unless that is
	// for the operators of the control plane.
	warning string
}

func refuse(reason Reason, format string, args ...any) *refusal {
	message := fmt.Sprintf(format, args...)
	return &refusal{reason: reason, message: message, warning: message}
}

// bind finds the adapter of a backend and resolves its remote tier.
func bind(backend *inferencecache.CacheBackend) (engine.Adapter, *binding.Binding, *refusal) {
	spec := &backend.Spec
	adapter, ok := engine.Lookup(v1alpha1.Runtime(spec.Runtime), v1alpha1.CacheType(spec.Type))
	if !ok {
		return nil, nil, refuse(ReasonNoAdapter, "no adapter for runtime %s and type %s",
			strings.ToLower(string(spec.Runtime)), spec.Type)
	}
	if modeOf(backend) == v1alpha1.IntegrationModeEventsOnly {
		// Nothing is dialled; a remote tier that is stored all the same is ignored.
		return adapter, nil, nil
	}
	if spec.RemoteStorage == nil {
		if !adapter.SupportsBinding(nil) {
			return nil, nil, refuse(ReasonBindingUnsupported, "%s does not support host-only caches", adapter.Name())
		}
		return adapter, nil, nil
	}
	bound, refused := resolve(adapter, backend)
	return adapter, bound, refused
}

func resolve(adapter engine.Adapter, backend *inferencecache.CacheBackend) (*binding.Binding, *refusal) {
	storage := backend.Spec.RemoteStorage
	provider := v1alpha1.StorageProvider(storage.Provider)
	protocol, ok := binding.ProtocolOf(provider)
	if !ok {
		return nil, refuse(ReasonUnsupportedProvider, "unsupported remote-storage provider %q", storage.Provider)
	}
	bound := &binding.Binding{Protocol: protocol}
	if !adapter.SupportsBinding(bound) {
		return nil, refuse(ReasonBindingUnsupported, "%s does not support the protocol %s", adapter.Name(), protocol)
	}
	if storage.Ownership == inferencecache.StorageOwnershipExternal {
		// The status is never a fallback: it may be that of another endpoint.
		if _, err := binding.ParseEndpoint(provider, storage.Endpoint); err != nil {
			return nil, refuse(ReasonEndpointMissing, "spec.remoteStorage.endpoint of %s %v", key(backend), err)
		}
		bound.Endpoint = strings.TrimSpace(storage.Endpoint)
		return bound, nil
	}
	bound.Endpoint = strings.TrimSpace(backend.Status.Endpoint)
	if bound.Endpoint == "" {
		return nil, refuse(ReasonEndpointMissing,
			"%s has published no status.endpoint yet; recreate the pod once it has", key(backend))
	}
	return bound, nil
}

// wiringOf translates a backend for the adapters. Stored objects may lack what defaulting
// fills in today.
func wiringOf(backend *inferencecache.CacheBackend, bound *binding.Binding) engine.Wiring {
	spec := &backend.Spec
	wiring := engine.Wiring{
		Mode:        modeOf(backend),
		Role:        v1alpha1.IntegrationRoleReadWrite,
		FailOpen:    true,
		Binding:     bound,
		KernelCheck: backend.Annotations[v1alpha1.AnnotationKernelCheck],
		Autoscaling: spec.Autoscaling != nil,
	}
	if integration := spec.Integration; integration != nil {
		if integration.Role != "" {
			wiring.Role = v1alpha1.IntegrationRole(integration.Role)
		}
		if integration.FailOpen != nil {
			wiring.FailOpen = *integration.FailOpen
		}
		wiring.EngineHostNetwork = integration.EngineHostNetwork
		if overrides := integration.EngineOverrides; overrides != nil {
			wiring.Overrides = engine.Overrides(*overrides)
		}
	}
	if selector := spec.EngineSelector; selector != nil {
		wiring.MatchLabels = selector.MatchLabels
	}
	if observation := spec.Observation; observation != nil {
		wiring.ModelID = observation.ModelID
	}
	if cache := spec.LMCache; cache != nil {
		wiring.LMCache = engine.LMCache{
			ChunkSizeTokens: cache.ChunkSizeTokens,
			WorkerImage:     cache.WorkerImage,
			WorkerPort:      cache.WorkerPort,
			RemoteSerde:     cache.RemoteSerde,
		}
		if cache.HostMemory != nil {
			wiring.LMCache.HostMemory = cache.HostMemory.Capacity
		}
	}
	if cache := spec.HiCache; cache != nil {
		wiring.HiCache = &engine.HiCache{
			SizeGB:       cache.SizeGB,
			Ratio:        cache.Ratio,
			WritePolicy:  v1alpha1.HiCacheWritePolicy(cache.WritePolicy),
			IOBackend:    v1alpha1.HiCacheIOBackend(cache.IOBackend),
			MemoryLayout: v1alpha1.HiCacheMemoryLayout(cache.MemoryLayout),
		}
	}
	return wiring
}

func modeOf(backend *inferencecache.CacheBackend) v1alpha1.IntegrationMode {
	if integration := backend.Spec.Integration; integration != nil && integration.Mode != "" {
		return v1alpha1.IntegrationMode(integration.Mode)
	}
	return v1alpha1.IntegrationModeOffload
}
