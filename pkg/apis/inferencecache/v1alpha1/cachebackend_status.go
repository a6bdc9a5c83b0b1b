// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CacheBackendStatus is the observed state of a CacheBackend.
type CacheBackendStatus struct {
	// endpoint is the address of the remote tier: that of the provisioned Service, or
	// spec.remoteStorage.endpoint without white space around it when the tier is
	// external. Empty without a remote tier.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// matchedEnginePods is the number of pods that spec.engineSelector selected when the
	// backend was last reconciled, 0 or more. Absent when it was not counted yet or when
	// nothing can be selected.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	MatchedEnginePods *int32 `json:"matchedEnginePods,omitempty"`

	// engineSelectorMessage says what is wrong when engine pods are expected and
	// spec.engineSelector selects none.
	// +optional
	EngineSelectorMessage string `json:"engineSelectorMessage,omitempty"`

	// failOpen is the effective value of spec.integration.failOpen.
	// +optional
	// +k8s:optional
	FailOpen *bool `json:"failOpen,omitempty"`

	// indexParticipation is this backend's part of the cluster's cache index. Absent
	// until the index was read for the first time.
	// +optional
	// +k8s:optional
	IndexParticipation *IndexParticipation `json:"indexParticipation,omitempty"`

	// firstKVEventObservedAt is when a KV event was first seen for this backend. Once
	// set it never changes.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	FirstKVEventObservedAt *metav1.Time `json:"firstKVEventObservedAt,omitempty"`

	// firstAvailableAt is when the backend was first up; the time for the first KV event
	// counts from here.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	FirstAvailableAt *metav1.Time `json:"firstAvailableAt,omitempty"`

	// observedServerInstance identifies the cache server pods that engines are taken to
	// be connected to, as <pod uid>:<restarts> joined by commas. It is a baseline for
	// restarting engines and not a live list of pods.
	// +optional
	ObservedServerInstance string `json:"observedServerInstance,omitempty"`

	// observedGeneration is the metadata.generation that the controller last acted on,
	// 0 or more.
	// +optional
	// +k8s:optional
	// +k8s:minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations: Ready, Progressing, Degraded,
	// FunctionalProbeOK, EngineKernelsHealthy, T2Degraded and EngineCompatibility, each
	// only where it has a meaning.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +k8s:optional
	// +k8s:eachVal=+k8s:opaqueType
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IndexParticipation is a backend's part of the cluster's cache index.
type IndexParticipation struct {
	// prefixCount is the number of prefixes that the index attributes to the backend's
	// engine pods, 0 or more.
	// +required
	// +k8s:optional
	// +k8s:minimum=0
	PrefixCount int64 `json:"prefixCount"`

	// lastEventAt is the time of the latest KV event of the backend's engine pods.
	// Absent while there is none.
	// +optional
	// +k8s:optional
	// +k8s:opaqueType
	LastEventAt *metav1.Time `json:"lastEventAt,omitempty"`

	// hitRate is reserved for the cache hit rate from 0 to 1 and always absent today.
	// +optional
	// +k8s:optional
	HitRate *string `json:"hitRate,omitempty"`

	// t2HitRate is the hit rate of the remote tier from 0 to 1, weighted by queries.
	// Absent means that the tier was never asked, "0" that it was asked and never served.
	// +optional
	// +k8s:optional
	T2HitRate *string `json:"t2HitRate,omitempty"`
}
