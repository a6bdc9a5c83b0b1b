// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package inferencecache

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CacheBackend describes the KV cache of a set of inference engine pods: the cache
// inside the engine, an optional remote tier behind it, and how engine pods that match
// spec.engineSelector are wired to both when they are created.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheBackend struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   CacheBackendSpec
	Status CacheBackendStatus
}

// CacheBackendList is a list of CacheBackends.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheBackendList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []CacheBackend
}

// Runtime names an inference engine. Values are case-sensitive.
type Runtime string

const (
	// RuntimeVLLM is the vLLM engine.
	RuntimeVLLM Runtime = "VLLM"
	// RuntimeSGLang is the SGLang engine.
	RuntimeSGLang Runtime = "SGLang"
)

// CacheType names the cache implementation inside the engine.
type CacheType string

const (
	// CacheTypeLMCache is LMCache, loaded into the engine as its KV connector.
	CacheTypeLMCache CacheType = "LMCache"
	// CacheTypeSGLangHiCache is the hierarchical cache that SGLang brings along.
	CacheTypeSGLangHiCache CacheType = "SGLangHiCache"
)

// DeploymentKind names the workload that runs a managed remote tier.
type DeploymentKind string

const (
	// DeploymentKindDeployment runs the tier as a Deployment.
	DeploymentKindDeployment DeploymentKind = "Deployment"
	// DeploymentKindStatefulSet runs the tier as a StatefulSet.
	DeploymentKindStatefulSet DeploymentKind = "StatefulSet"
)

// CacheBackendSpec is the desired state of a CacheBackend.
type CacheBackendSpec struct {
	Runtime             Runtime
	Type                CacheType
	LMCache             *LMCacheSpec
	RemoteStorage       *RemoteStorageSpec
	Observation         *ObservationSpec
	DeploymentKind      DeploymentKind
	Replicas            *int32
	Autoscaling         *AutoscalingSpec
	Integration         *IntegrationSpec
	EngineSelector      *EngineSelector
	HiCache             *HiCacheSpec
	Template            *PodTemplateOverrides
	AllowCrossNamespace bool
}

// LMCacheSpec configures LMCache inside the engine.
type LMCacheSpec struct {
	ChunkSizeTokens *int32
	HostMemory      *HostMemorySpec
	WorkerImage     string
	WorkerPort      *int32
	RemoteSerde     string
}

// HostMemorySpec is a budget of host memory.
type HostMemorySpec struct {
	Capacity *resource.Quantity
}

// ObservationSpec says how the engines' KV events are observed.
type ObservationSpec struct {
	ModelID           string
	FirstEventTimeout *metav1.Duration
}

// AutoscalingSpec scales the managed remote tier by CPU utilisation.
type AutoscalingSpec struct {
	MinReplicas                 *int32
	MaxReplicas                 int32
	TargetCPUUtilizationPercent *int32
}

// EngineSelector selects engine pods by the labels of the pod itself.
type EngineSelector struct {
	MatchLabels map[string]string
}

// PodTemplateOverrides are the parts of the managed tier's pods that an operator may set.
type PodTemplateOverrides struct {
	NodeSelector                  map[string]string
	Affinity                      *corev1.Affinity
	Tolerations                   []corev1.Toleration
	TopologySpreadConstraints     []corev1.TopologySpreadConstraint
	ImagePullSecrets              []corev1.LocalObjectReference
	ServiceAccountName            string
	SecurityContext               *corev1.PodSecurityContext
	PriorityClassName             string
	SchedulerName                 string
	RuntimeClassName              *string
	TerminationGracePeriodSeconds *int64
}

// StorageProvider names the technology of a remote tier.
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
type StorageOwnership string

const (
	// StorageOwnershipManaged means that the control plane provisions the tier.
	StorageOwnershipManaged StorageOwnership = "Managed"
	// StorageOwnershipExternal means that the operator runs it and names its endpoint.
	StorageOwnershipExternal StorageOwnership = "External"
)

// RemoteStorageSpec is the shared tier behind the engines' own memory.
type RemoteStorageSpec struct {
	Provider      StorageProvider
	Ownership     StorageOwnership
	Endpoint      string
	Redis         *RedisSpec
	LMCacheServer *LMCacheServerSpec
	Mooncake      *MooncakeSpec
}

// RedisSpec configures a managed Redis.
type RedisSpec struct {
	Image     string
	Resources *corev1.ResourceRequirements
}

// LMCacheServerSpec configures a managed LMCache server.
type LMCacheServerSpec struct {
	Image     string
	Command   []string
	Resources *corev1.ResourceRequirements
}

// MooncakeSpec configures a managed Mooncake master.
type MooncakeSpec struct {
	Image     string
	Command   []string
	Resources *corev1.ResourceRequirements
}

// IntegrationMode says which tiers of the cache an engine is wired for.
type IntegrationMode string

const (
	// IntegrationModeOffload wires routing by KV events and offloading of KV.
	IntegrationModeOffload IntegrationMode = "Offload"
	// IntegrationModeEventsOnly wires routing by KV events alone.
	IntegrationModeEventsOnly IntegrationMode = "EventsOnly"
)

// IntegrationRole says whether an engine reads the cache, fills it, or both.
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
	Mode              IntegrationMode
	Role              IntegrationRole
	FailOpen          *bool
	EngineHostNetwork bool
	EngineOverrides   *EngineOverrides
}

// EngineOverrides amends the arguments and environment that are injected into the engine
// container. What the pod's own template says and the injection leaves alone is never
// changed. Flags and variables that the integration cannot work without are reserved and
// rejected, with a message that names them.
type EngineOverrides struct {
	Args         []string
	SuppressArgs []string
	Env          []corev1.EnvVar
	SuppressEnv  []string
}

// HiCacheWritePolicy says when SGLang copies KV to the host tier.
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
	SizeGB       *int32
	Ratio        string
	WritePolicy  HiCacheWritePolicy
	IOBackend    HiCacheIOBackend
	MemoryLayout HiCacheMemoryLayout
}

// CacheBackendStatus is the observed state of a CacheBackend.
type CacheBackendStatus struct {
	Endpoint               string
	MatchedEnginePods      *int32
	EngineSelectorMessage  string
	FailOpen               *bool
	IndexParticipation     *IndexParticipation
	FirstKVEventObservedAt *metav1.Time
	FirstAvailableAt       *metav1.Time
	ObservedServerInstance string
	ObservedGeneration     int64
	Conditions             []metav1.Condition
}

// IndexParticipation is a backend's part of the cluster's cache index.
type IndexParticipation struct {
	PrefixCount int64
	LastEventAt *metav1.Time
	HitRate     *string
	// Absent means that the tier was never asked, "0" that it was asked and never served.
	T2HitRate *string
}
