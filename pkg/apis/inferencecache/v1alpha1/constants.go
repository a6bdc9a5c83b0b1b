// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// APIVersion is GroupVersion in the form that schemes and codecs take.
var APIVersion = schema.GroupVersion(GroupVersion)

// Annotations on a CacheBackend.
const (
	// AnnotationKernelCheck selects how engine pods check that LMCache's native kernels
	// load: one of the KernelCheck values.
	AnnotationKernelCheck = "inferencecache.io/lmcache-kernel-check"
	// AnnotationRequireKVEvents switches the KV-event gate off when it is exactly "false".
	AnnotationRequireKVEvents = "inferencecache.io/require-kv-events"
	// AnnotationSkipFunctionalProbe switches the functional probe off when it is exactly
	// "true".
	AnnotationSkipFunctionalProbe = "inferencecache.io/skip-functional-probe"
)

// Values of AnnotationKernelCheck. Empty means KernelCheckAuto.
const (
	// KernelCheckAuto checks, without blocking, in pods whose engine requests a GPU.
	KernelCheckAuto = "auto"
	// KernelCheckReportOnly always checks, without blocking.
	KernelCheckReportOnly = "report-only"
	// KernelCheckStrict always checks and blocks the pod on a failure.
	KernelCheckStrict = "strict"
	// KernelCheckOff never checks.
	KernelCheckOff = "off"
)

// Condition types of a CacheBackend.
const (
	// ConditionReady says whether the cache works, as far as can be known.
	ConditionReady = "Ready"
	// ConditionProgressing says whether the live state is on its way to the desired one.
	ConditionProgressing = "Progressing"
	// ConditionDegraded says whether the backend is stuck in an unhealthy state.
	ConditionDegraded = "Degraded"
	// ConditionFunctionalProbeOK is the outcome of the latest functional probe.
	ConditionFunctionalProbeOK = "FunctionalProbeOK"
	// ConditionEngineKernelsHealthy says whether LMCache's native kernels load in the
	// engine pods.
	ConditionEngineKernelsHealthy = "EngineKernelsHealthy"
	// ConditionT2Degraded says whether the remote tier was asked and never served.
	ConditionT2Degraded = "T2Degraded"
	// ConditionEngineCompatibility says that a wired engine is crash-looping.
	ConditionEngineCompatibility = "EngineCompatibility"
)

// Reasons of Ready and Progressing for an external remote tier.
const (
	// ReasonExternalEndpointAccepted means that the endpoint is well-formed.
	ReasonExternalEndpointAccepted = "ExternalEndpointAccepted"
	// ReasonExternalEndpointMissing means that there is no endpoint.
	ReasonExternalEndpointMissing = "ExternalEndpointMissing"
	// ReasonExternalEndpointInvalid means that the provider cannot use the endpoint.
	ReasonExternalEndpointInvalid = "ExternalEndpointInvalid"
)

// ReservedProbeTenantID is the tenant of the functional probe; no CacheTenant may use it.
const ReservedProbeTenantID = "inferencecache.io/probe"

// CacheIndexName is the name of the one CacheIndex.
const CacheIndexName = "cluster-default"

// Annotations on a Pod.
const (
	// AnnotationSkipInject opts a pod out of wiring when its value is true or free text.
	AnnotationSkipInject = "inferencecache.io/skip-inject"
	// AnnotationInjectedBy names the backend that a pod is wired to, as namespace/name.
	AnnotationInjectedBy = "inferencecache.io/injected-by"
	// AnnotationInjectedByUID is the uid of that backend.
	AnnotationInjectedByUID = "inferencecache.io/injected-by-uid"
	// AnnotationInjectSkipped says why a pod was left alone on request; the value is
	// InjectSkippedByAnnotation.
	AnnotationInjectSkipped = "inferencecache.io/inject-skipped"
	// InjectSkippedByAnnotation is the value for pods that opt out by annotation.
	InjectSkippedByAnnotation = "skip-inject-annotation"
)
