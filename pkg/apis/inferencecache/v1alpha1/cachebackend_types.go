// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CacheBackend describes the KV cache of a set of inference engine pods: the cache
// inside the engine, an optional remote tier behind it, and how engine pods that match
// spec.engineSelector are wired to both when they are created.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +k8s:supportsSubresource="/status"
type CacheBackend struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard object metadata. The annotation
	// inferencecache.io/lmcache-kernel-check takes auto, report-only, strict or off; any
	// other value is rejected.
	// +optional
	// +k8s:opaqueType
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the cache. Every field may be changed later, as long
	// as the result is valid. An update is refused only for violations that it brings in.
	// +optional
	Spec CacheBackendSpec `json:"spec,omitempty"`

	// status is the observed state, written by the control plane. What a client sends
	// here on the main resource is ignored.
	// +optional
	Status CacheBackendStatus `json:"status,omitempty"`
}

// CacheBackendList is a list of CacheBackends.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CacheBackendList struct {
	// +k8s:opaqueType
	metav1.TypeMeta `json:""`

	// metadata is the standard list metadata.
	// +optional
	// +k8s:opaqueType
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the CacheBackends of the list.
	Items []CacheBackend `json:"items"`
}

// Runtime names an inference engine. Values are case-sensitive.
//
// +enum
// +k8s:enum
type Runtime string

const (
	// RuntimeVLLM is the vLLM engine.
	RuntimeVLLM Runtime = "VLLM"
	// RuntimeSGLang is the SGLang engine.
	RuntimeSGLang Runtime = "SGLang"
)

// CacheType names the cache implementation inside the engine.
//
// +enum
// +k8s:enum
type CacheType string

const (
	// CacheTypeLMCache is LMCache, loaded into the engine as its KV connector.
	CacheTypeLMCache CacheType = "LMCache"
	// CacheTypeSGLangHiCache is the hierarchical cache that SGLang brings along.
	CacheTypeSGLangHiCache CacheType = "SGLangHiCache"
)

// DeploymentKind names the workload that runs a managed remote tier.
//
// +enum
// +k8s:enum
type DeploymentKind string

const (
	// DeploymentKindDeployment runs the tier as a Deployment.
	DeploymentKindDeployment DeploymentKind = "Deployment"
	// DeploymentKindStatefulSet runs the tier as a StatefulSet.
	DeploymentKindStatefulSet DeploymentKind = "StatefulSet"
)

// CacheBackendSpec is the desired state of a CacheBackend.
type CacheBackendSpec struct {
	// runtime is the inference engine whose pods are wired: VLLM or SGLang. Required.
	// The pair of runtime and type must be supported: VLLM with LMCache, SGLang with
	// LMCache, SGLang with SGLangHiCache.
	// +required
	// +k8s:required
	Runtime Runtime `json:"runtime"`

	// type is the cache implementation inside the engine: LMCache or SGLangHiCache.
	// It says nothing about remote storage. Defaults to LMCache.
	// +optional
	// +k8s:optional
	// +default="LMCache"
	Type CacheType `json:"type,omitempty"`

	// lmCache configures LMCache inside the engine. It is rejected with any type but
	// LMCache, and without effect when integration.mode is EventsOnly.
	// +optional
	// +k8s:optional
	LMCache *LMCacheSpec `json:"lmCache,omitempty"`

	// remoteStorage is the shared tier behind the engines' own memory. When it is
	// absent the cache is host-only: nothing is provisioned and nothing is dialled.
	// VLLM with LMCache accepts the providers LMCacheServer and Mooncake, SGLang with
	// LMCache accepts Redis, SGLangHiCache accepts none. It is rejected when
	// integration.mode is EventsOnly.
	// +optional
	// +k8s:optional
	RemoteStorage *RemoteStorageSpec `json:"remoteStorage,omitempty"`

	// observation says how the engines' KV events are attributed and for how long the
	// first one is awaited. The object is filled in when it is left out.
	// +optional
	// +k8s:optional
	Observation *ObservationSpec `json:"observation,omitempty"`

	// deploymentKind is the kind of workload that runs a managed remote tier:
	// Deployment or StatefulSet. Without a managed remote tier it has no effect.
	// Defaults to Deployment.
	// +optional
	// +k8s:optional
	// +default="Deployment"
	DeploymentKind DeploymentKind `json:"deploymentKind,omitempty"`

	// replicas is the number of pods of the managed remote tier, 0 or more; 0 scales it
	// to zero. With the provider Mooncake, and with a managed Redis for SGLang, at most 1.
	// While autoscaling is set the autoscaler owns the running count.
	// Defaults to 1.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	// +default=1
	Replicas *int32 `json:"replicas,omitempty"`

	// autoscaling scales the managed remote tier by CPU utilisation. It is rejected
	// without remoteStorage, with the provider Mooncake, with a managed Redis for SGLang,
	// with SGLangHiCache and when integration.mode is EventsOnly.
	// +optional
	// +k8s:optional
	Autoscaling *AutoscalingSpec `json:"autoscaling,omitempty"`

	// integration says how engine pods take part in the cache. The object is filled in
	// when it is left out.
	// +optional
	// +k8s:optional
	Integration *IntegrationSpec `json:"integration,omitempty"`

	// engineSelector selects the engine pods of this namespace that are wired when they
	// are created. Without it, or with no labels in it, no pod is. When several backends
	// select one pod the first by name wins. Required with SGLangHiCache.
	// +optional
	// +k8s:optional
	EngineSelector *EngineSelector `json:"engineSelector,omitempty"`

	// hiCache configures SGLang's own hierarchical cache. Required with the type
	// SGLangHiCache, rejected with any other. Its memory counts against the engine
	// container: size the memory request and limit of that container for it.
	// +optional
	// +k8s:optional
	HiCache *HiCacheSpec `json:"hiCache,omitempty"`

	// template overrides parts of the pods of the managed remote tier. Containers come
	// from the provider and cannot be set here.
	// +optional
	// +k8s:optional
	Template *PodTemplateOverrides `json:"template,omitempty"`

	// allowCrossNamespace permits remoteStorage.endpoint to name a Service of another
	// namespace, which is rejected otherwise. IP addresses and host names outside the
	// cluster's DNS are not affected. Defaults to false.
	// +optional
	AllowCrossNamespace bool `json:"allowCrossNamespace,omitempty"`
}

// LMCacheSpec configures LMCache inside the engine.
type LMCacheSpec struct {
	// chunkSizeTokens is the number of tokens in one cached chunk, 1 or more.
	// When unset, 256 is used; the value is not filled in.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	ChunkSizeTokens *int32 `json:"chunkSizeTokens,omitempty"`

	// hostMemory is the budget of host memory for cached KV.
	// +optional
	// +k8s:optional
	HostMemory *HostMemorySpec `json:"hostMemory,omitempty"`

	// workerImage is the image of the LMCache worker beside an SGLang engine.
	// When unset, the engine's own image is used. It has no effect with VLLM.
	// +optional
	WorkerImage string `json:"workerImage,omitempty"`

	// workerPort is the loopback port between an SGLang engine and its LMCache worker,
	// from 1 to 65535. When unset, 5555 is used; the value is not filled in.
	// It has no effect with VLLM.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	// +k8s:maximum=65535
	WorkerPort *int32 `json:"workerPort,omitempty"`

	// remoteSerde names LMCache's serializer for the remote tier, for example naive or
	// cachegen. The name is passed on unchecked. It has no effect with SGLang.
	// +optional
	RemoteSerde string `json:"remoteSerde,omitempty"`
}

// HostMemorySpec is a budget of host memory.
type HostMemorySpec struct {
	// capacity is the amount of host memory, more than 0 and less than 1e19, for example
	// 32Gi. Engines take whole gibibytes. When unset, SGLang's worker uses 4Gi and VLLM
	// uses LMCache's own choice; the value is not filled in.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	Capacity *resource.Quantity `json:"capacity,omitempty"`
}

// ObservationSpec says how the engines' KV events are observed.
type ObservationSpec struct {
	// modelID is the name under which the engines' KV events are indexed. Without it no
	// event subscriber is added to engine pods.
	// +optional
	ModelID string `json:"modelID,omitempty"`

	// firstEventTimeout is how long a backend that is up may wait for its first KV event
	// before it is reported as degraded, as a duration such as 90s or 5m. Zero and
	// negative values mean the default. Defaults to 5m.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	// +default="5m"
	FirstEventTimeout *metav1.Duration `json:"firstEventTimeout,omitempty"`
}

// AutoscalingSpec scales the managed remote tier by CPU utilisation.
type AutoscalingSpec struct {
	// minReplicas is the lower bound of the autoscaler, 1 or more, at most maxReplicas.
	// When autoscaling is first applied without it, it is filled in from spec.replicas;
	// later changes of spec.replicas do not move it, and a write that leaves it out keeps
	// the stored value. It must be set when spec.replicas is 0.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the upper bound of the autoscaler, 1 or more. Required.
	// +required
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercent is the average CPU utilisation of the pods that the
	// autoscaler aims for, in percent of the CPU request, from 1 to 100.
	// When unset, 80 is used; the value is not filled in.
	// +optional
	// +k8s:optional
	// +k8s:minimum=1
	// +k8s:maximum=100
	TargetCPUUtilizationPercent *int32 `json:"targetCPUUtilizationPercent,omitempty"`
}

// EngineSelector selects engine pods by the labels of the pod itself.
type EngineSelector struct {
	// matchLabels are labels that a pod must carry, all of them. They are compared with
	// the labels of the pod template, not with those of the Deployment around it.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// PodTemplateOverrides are the parts of the managed tier's pods that an operator may set.
type PodTemplateOverrides struct {
	// nodeSelector restricts the pods to nodes with these labels.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity holds the scheduling constraints of the pods.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations are the taints that the pods tolerate.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// topologySpreadConstraints say how the pods are spread over the cluster.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// imagePullSecrets name the Secrets of this namespace for pulling the images.
	// +optional
	// +listType=atomic
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the ServiceAccount that the pods run as.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// securityContext holds the pod-level security attributes.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// priorityClassName is the priority class of the pods.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// schedulerName is the scheduler that places the pods.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// runtimeClassName is the RuntimeClass of the pods.
	// +optional
	// +k8s:optional
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`

	// terminationGracePeriodSeconds is the time that the pods get to stop, in seconds,
	// 0 or more.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}
