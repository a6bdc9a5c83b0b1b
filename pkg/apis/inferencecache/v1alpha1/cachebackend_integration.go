// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// IntegrationMode says which tiers of the cache an engine is wired for.
//
// +enum
// +k8s:enum
type IntegrationMode string

const (
	// IntegrationModeOffload wires routing by KV events and offloading of KV.
	IntegrationModeOffload IntegrationMode = "Offload"
	// IntegrationModeEventsOnly wires routing by KV events alone.
	IntegrationModeEventsOnly IntegrationMode = "EventsOnly"
)

// IntegrationRole says whether an engine reads the cache, fills it, or both.
//
// +enum
// +k8s:enum
type IntegrationRole string

const (
	// IntegrationRoleReadOnly engines only read the cache.
	IntegrationRoleReadOnly IntegrationRole = "ReadOnly"
	// IntegrationRoleWriteOnly engines only fill the cache.
	IntegrationRoleWriteOnly IntegrationRole = "WriteOnly"
	// IntegrationRoleReadWrite engines do both.
	IntegrationRoleReadWrite IntegrationRole = "ReadWrite"
)

// IntegrationSpec says how engine pods take part in the cache.
type IntegrationSpec struct {
	// mode is Offload (the engine keeps KV in the cache and its KV events are indexed) or
	// EventsOnly (its KV events are indexed, no KV connector is loaded and nothing is
	// provisioned). EventsOnly is the mode for hybrid-attention models, which cannot load
	// a connector; it needs the type LMCache and neither remoteStorage nor autoscaling.
	// Defaults to Offload.
	// +optional
	// +k8s:optional
	// +default="Offload"
	Mode IntegrationMode `json:"mode,omitempty"`

	// role is ReadOnly, WriteOnly or ReadWrite. SGLang supports ReadWrite only.
	// Defaults to ReadWrite.
	// +optional
	// +k8s:optional
	// +default="ReadWrite"
	Role IntegrationRole `json:"role,omitempty"`

	// failOpen says that engines go on without the cache when it cannot be reached.
	// false makes the cache a serving dependency, which is announced by a Warning event;
	// SGLangHiCache rejects it. Defaults to true.
	// +optional
	// +k8s:optional
	// +default=true
	FailOpen *bool `json:"failOpen,omitempty"`

	// engineHostNetwork moves matched engine pods to the host network, which Mooncake's
	// data path needs; with any other provider it is rejected. It concerns only pods that
	// are created afterwards: restart the engines' workload after setting it.
	// Defaults to false.
	// +optional
	EngineHostNetwork bool `json:"engineHostNetwork,omitempty"`

	// engineOverrides amends what is injected into the engine container. It is known to
	// be fragile: values that are not reserved go in unchecked and can still break the
	// engine.
	// +optional
	// +k8s:optional
	EngineOverrides *EngineOverrides `json:"engineOverrides,omitempty"`
}

// EngineOverrides amends the arguments and environment that are injected into the engine
// container. What the pod's own template says and the injection leaves alone is never
// changed. Flags and variables that the integration cannot work without are reserved and
// rejected, with a message that names them.
type EngineOverrides struct {
	// args are arguments of the engine. One whose flag is injected replaces the injected
	// one, one that neither the injection nor the pod's template has is appended, and one
	// that only the template has is left as the template says. Reserved flags are
	// rejected.
	// +optional
	// +listType=atomic
	Args []string `json:"args,omitempty"`

	// suppressArgs are flags that are not to be injected. Reserved flags are rejected.
	// +optional
	// +listType=atomic
	SuppressArgs []string `json:"suppressArgs,omitempty"`

	// env are environment variables of the engine, treated by name as args are by flag.
	// Reserved names are rejected; a variable has either a value or exactly one source.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	Env []corev1.EnvVar `json:"env,omitempty"`

	// suppressEnv are environment variables that are not to be injected. Reserved names
	// are rejected.
	// +optional
	// +listType=atomic
	SuppressEnv []string `json:"suppressEnv,omitempty"`
}

// HiCacheWritePolicy says when SGLang copies KV to the host tier.
//
// +enum
// +k8s:enum
type HiCacheWritePolicy string

const (
	// HiCacheWriteBack copies on eviction.
	HiCacheWriteBack HiCacheWritePolicy = "write_back"
	// HiCacheWriteThrough copies at once.
	HiCacheWriteThrough HiCacheWritePolicy = "write_through"
	// HiCacheWriteThroughSelective copies what is used often.
	HiCacheWriteThroughSelective HiCacheWritePolicy = "write_through_selective"
)

// HiCacheIOBackend says how SGLang moves KV between device and host.
//
// +enum
// +k8s:enum
type HiCacheIOBackend string

const (
	// HiCacheIODirect uses plain copies.
	HiCacheIODirect HiCacheIOBackend = "direct"
	// HiCacheIOKernel uses GPU kernels.
	HiCacheIOKernel HiCacheIOBackend = "kernel"
	// HiCacheIOKernelAscend uses Ascend kernels.
	HiCacheIOKernelAscend HiCacheIOBackend = "kernel_ascend"
)

// HiCacheMemoryLayout is the layout of KV in the host tier.
//
// +enum
// +k8s:enum
type HiCacheMemoryLayout string

const (
	// HiCacheLayoutLayerFirst keeps the pages of a layer together.
	HiCacheLayoutLayerFirst HiCacheMemoryLayout = "layer_first"
	// HiCacheLayoutPageFirst keeps the layers of a page together.
	HiCacheLayoutPageFirst HiCacheMemoryLayout = "page_first"
	// HiCacheLayoutPageFirstDirect is page_first for direct copies.
	HiCacheLayoutPageFirstDirect HiCacheMemoryLayout = "page_first_direct"
	// HiCacheLayoutPageFirstKVSplit is page_first with keys and values apart.
	HiCacheLayoutPageFirstKVSplit HiCacheMemoryLayout = "page_first_kv_split"
	// HiCacheLayoutPageHead keeps the pages of an attention head together.
	HiCacheLayoutPageHead HiCacheMemoryLayout = "page_head"
)

// HiCacheSpec configures SGLang's hierarchical cache. Exactly one of sizeGB and ratio is
// set.
type HiCacheSpec struct {
	// sizeGB is the size of the host tier in gigabytes, 1 or more.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	SizeGB *int32 `json:"sizeGB,omitempty"`

	// ratio is the size of the host tier as a multiple of the device tier: a finite
	// decimal number above 0, as a string such as "2.0".
	// +optional
	Ratio string `json:"ratio,omitempty"`

	// writePolicy is write_back, write_through or write_through_selective. When unset,
	// the engine chooses.
	// +optional
	// +k8s:optional
	WritePolicy HiCacheWritePolicy `json:"writePolicy,omitempty"`

	// ioBackend is direct, kernel or kernel_ascend. When unset, the engine chooses.
	// +optional
	// +k8s:optional
	IOBackend HiCacheIOBackend `json:"ioBackend,omitempty"`

	// memoryLayout is layer_first, page_first, page_first_direct, page_first_kv_split or
	// page_head. When unset, the engine chooses.
	// +optional
	// +k8s:optional
	MemoryLayout HiCacheMemoryLayout `json:"memoryLayout,omitempty"`
}
