// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// StorageProvider names the technology of a remote tier.
//
// +enum
// +k8s:enum
type StorageProvider string

const (
	// StorageProviderRedis is Redis, spoken to over RESP.
	StorageProviderRedis StorageProvider = "Redis"
	// StorageProviderLMCacheServer is the stand-alone LMCache server.
	StorageProviderLMCacheServer StorageProvider = "LMCacheServer"
	// StorageProviderMooncake is a Mooncake store.
	StorageProviderMooncake StorageProvider = "Mooncake"
)

// StorageOwnership says who runs a remote tier.
//
// +enum
// +k8s:enum
type StorageOwnership string

const (
	// StorageOwnershipManaged means that the control plane provisions the tier.
	StorageOwnershipManaged StorageOwnership = "Managed"
	// StorageOwnershipExternal means that the operator runs it and names its endpoint.
	StorageOwnershipExternal StorageOwnership = "External"
)

// RemoteStorageSpec is the shared tier behind the engines' own memory.
type RemoteStorageSpec struct {
	// provider is the technology of the tier: Redis, LMCacheServer or Mooncake. Required.
	// +required
	// +k8s:required
	Provider StorageProvider `json:"provider"`

	// ownership says who runs the tier: Managed (the control plane provisions it) or
	// External (it exists already, at endpoint). Required.
	// +required
	// +k8s:required
	Ownership StorageOwnership `json:"ownership"`

	// endpoint is the address of an external tier as host:port; required with External
	// and rejected with Managed, whose address is found in status.endpoint. The port is a
	// number from 1 to 65535, an IPv6 address stands in brackets. LMCacheServer takes
	// lm://host:port too, Mooncake mooncakestore://host:port, Redis no scheme. White
	// space around it is ignored. A Service of another namespace needs
	// allowCrossNamespace.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// redis configures a managed Redis. It is rejected with another provider and with
	// External ownership.
	// +optional
	// +k8s:optional
	Redis *RedisSpec `json:"redis,omitempty"`

	// lmCacheServer configures a managed LMCache server. It is rejected with another
	// provider and with External ownership.
	// +optional
	// +k8s:optional
	LMCacheServer *LMCacheServerSpec `json:"lmCacheServer,omitempty"`

	// mooncake configures a managed Mooncake master. It is rejected with another
	// provider and with External ownership. The master runs on the host network of its
	// node, so the namespace must permit that.
	// +optional
	// +k8s:optional
	Mooncake *MooncakeSpec `json:"mooncake,omitempty"`
}

// RedisSpec configures a managed Redis.
type RedisSpec struct {
	// image is the container image. When unset, a pinned version is used.
	// +optional
	Image string `json:"image,omitempty"`

	// resources are the requests and limits of the container. When unset, 4Gi of memory
	// is requested and 8Gi is the limit; an empty object means neither. About 80% of the
	// memory limit becomes Redis' maxmemory. Claims are rejected, quantities must be at
	// least 0 and less than 1e19, limits must not be below requests, extended resources
	// and huge pages need equal limits and requests in whole units.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// LMCacheServerSpec configures a managed LMCache server.
type LMCacheServerSpec struct {
	// image is the container image. It must speak the wire version of the LMCache client
	// inside the engine image: pin both. A mismatch is silent, the tier then never
	// serves a hit. When unset, a pinned version is used.
	// +optional
	Image string `json:"image,omitempty"`

	// command replaces the command line of the container. When present it has at least
	// one entry, and none is blank.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitzero"`

	// resources are the requests and limits of the container. When unset, 4Gi of memory
	// is requested and 8Gi is the limit; an empty object means neither. The server keeps
	// KV in memory: size it for the working set. Claims are rejected, quantities must be
	// at least 0 and less than 1e19, limits must not be below requests, extended resources
	// and huge pages need equal limits and requests in whole units.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// MooncakeSpec configures a managed Mooncake master.
type MooncakeSpec struct {
	// image is the container image. When unset, a pinned version is used.
	// +optional
	Image string `json:"image,omitempty"`

	// command replaces the command line of the master. When present it has at least one
	// entry, and none is blank. It must keep the RPC port 50051 and the metadata port
	// 8080: Service, probes and the engines' wiring use these two whatever the command
	// says.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitzero"`

	// resources are the requests and limits of the container. When unset, 4Gi of memory
	// is requested and 8Gi is the limit; an empty object means neither. Claims are
	// rejected, quantities must be at least 0 and less than 1e19, limits must not be below
	// requests, extended resources and huge pages need equal limits and requests in whole
	// units.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}
