// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapters says which path the control plane takes with a backend, as one function
// for everybody who has to know.
package adapters

import (
	"strings"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Path is what the control plane does with a backend.
type Path string

const (
	// Managed backends have a remote tier that is provisioned.
	Managed Path = "Managed"
	// HostOnly backends have no remote tier.
	HostOnly Path = "HostOnly"
	// EventsOnly backends only have their engines' events indexed.
	EventsOnly Path = "EventsOnly"
	// External backends have a remote tier that somebody else runs.
	External Path = "External"
	// Unmanaged backends are none of the above: the control plane publishes nothing for
	// them. Objects that were stored under laxer rules can be among them.
	Unmanaged Path = "Unmanaged"
)

// Request is the part of a spec that decides the path.
type Request struct {
	Runtime v1alpha1.Runtime
	Type    v1alpha1.CacheType
	Mode    v1alpha1.IntegrationMode
	// RemoteStorage is nil when the spec has none.
	RemoteStorage *RemoteStorage
}

// RemoteStorage is the remote tier of a Request.
type RemoteStorage struct {
	Provider  v1alpha1.StorageProvider
	Ownership v1alpha1.StorageOwnership
	Endpoint  string
}

// Classification is the path of a backend and, on the paths Managed and External, what its
// engines speak to the remote tier.
type Classification struct {
	Path     Path
	Protocol binding.Protocol
	// Endpoint is that of an external tier, without white space around it. The address of
	// a managed tier is an observation and never here.
	Endpoint string
}

// Classify says which path a backend is on. It judges stored objects too, so it expects
// nothing of the request that validation would ensure.
func Classify(request Request) Classification {
	adapter, supported := engine.Lookup(request.Runtime, request.Type)
	if request.Mode == v1alpha1.IntegrationModeEventsOnly {
		// The mode wins over the remote tier: there is nothing to connect to it.
		if !supported || !adapter.SupportsBinding(nil) {
			return Classification{Path: Unmanaged}
		}
		return Classification{Path: EventsOnly}
	}
	if !supported {
		return Classification{Path: Unmanaged}
	}
	if request.RemoteStorage == nil {
		// HiCache lives in the engine alone and has no conditions to publish.
		if request.Type == v1alpha1.CacheTypeSGLangHiCache || !adapter.SupportsBinding(nil) {
			return Classification{Path: Unmanaged}
		}
		return Classification{Path: HostOnly}
	}
	return classifyRemote(adapter, *request.RemoteStorage)
}

func classifyRemote(adapter engine.Adapter, remote RemoteStorage) Classification {
	provider, known := storage.Lookup(remote.Provider)
	if !known || !adapter.SupportsBinding(&binding.Binding{Protocol: provider.Protocol()}) {
		return Classification{Path: Unmanaged}
	}
	switch remote.Ownership {
	case v1alpha1.StorageOwnershipExternal:
		return Classification{
			Path:     External,
			Protocol: provider.Protocol(),
			Endpoint: strings.TrimSpace(remote.Endpoint),
		}
	case v1alpha1.StorageOwnershipManaged:
		return Classification{Path: Managed, Protocol: provider.Protocol()}
	default:
		return Classification{Path: Unmanaged}
	}
}
