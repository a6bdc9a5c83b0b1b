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

// Reasons of Ready for a workload, and of Progressing and Degraded where they repeat it.
const (
	// ReasonBackendReady means that the workload is rolled out and no gate is in the way.
	ReasonBackendReady = "BackendReady"
	// ReasonRolloutInProgress means that the workload is on its way to what the spec asks.
	ReasonRolloutInProgress = "RolloutInProgress"
	// ReasonScaledToZero means that no replica is asked for.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonReplicasUnavailable means that the workload is stuck without enough replicas.
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	// ReasonWorkloadConflict means that somebody else's object has the backend's name.
	ReasonWorkloadConflict = "WorkloadConflict"
)

// Reasons of Ready for a backend without a workload.
const (
	// ReasonHostOnlyActive means that the cache lives in the engines alone.
	ReasonHostOnlyActive = "HostOnlyActive"
	// ReasonEventsOnlyActive means that only the engines' events are indexed.
	ReasonEventsOnlyActive = "EventsOnlyActive"
)

// Reasons of the KV-event gate.
const (
	// ReasonKVEventsObserved means that a KV event has been seen.
	ReasonKVEventsObserved = "KVEventsObserved"
	// ReasonAwaitingFirstKVEvent means that there is still time for the first KV event.
	ReasonAwaitingFirstKVEvent = "AwaitingFirstKVEvent"
	// ReasonNoKVEventsObserved means that the time for the first KV event is over.
	ReasonNoKVEventsObserved = "NoKVEventsObserved"
)

// Reasons of Progressing and Degraded that Ready does not have.
const (
	// ReasonSynced means that nothing is left to be done.
	ReasonSynced = "Synced"
	// ReasonDegraded means that there is no progress because the workload is stuck.
	ReasonDegraded = "Degraded"
	// ReasonNotDegraded means that nothing is stuck.
	ReasonNotDegraded = "NotDegraded"
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

// Reasons of FunctionalProbeOK; those of a failure are reasons of Ready too.
const (
	// ReasonProbeOK means that every stage passed or was left out.
	ReasonProbeOK = "ProbeOK"
	// ReasonProbeBypassed means that AnnotationSkipFunctionalProbe switched the probe off.
	ReasonProbeBypassed = "ProbeBypassed"
	// ReasonProbeError means that there was no usable answer.
	ReasonProbeError = "ProbeError"
	// ReasonProbeIngestFailed means that a published event did not reach the index.
	ReasonProbeIngestFailed = "ProbeIngestFailed"
	// ReasonProbeRoutingFailed means that a look-up did not find what was indexed.
	ReasonProbeRoutingFailed = "ProbeRoutingFailed"
	// ReasonProbeT2Failed means that the remote tier did not give back what it was given.
	ReasonProbeT2Failed = "ProbeT2Failed"
)

// Reasons of EngineKernelsHealthy, and of Ready where a failed kernel check lowers it.
const (
	// ReasonKernelsHealthy means that the kernels load in every pod that checks.
	ReasonKernelsHealthy = "KernelsHealthy"
	// ReasonKernelLoadFailed means that the kernels of a pod do not load.
	ReasonKernelLoadFailed = "KernelLoadFailed"
	// ReasonKernelCheckError means that a check ended without a known result.
	ReasonKernelCheckError = "KernelCheckError"
	// ReasonKernelCheckPending means that a check has not ended.
	ReasonKernelCheckPending = "KernelCheckPending"
	// ReasonEngineKernelDegraded means that Ready is down because the kernels of a pod
	// that checks strictly do not load.
	ReasonEngineKernelDegraded = "EngineKernelDegraded"
)

// Reasons of T2Degraded and EngineCompatibility.
const (
	// ReasonT2ZeroHitRate means that the remote tier was asked and never served.
	ReasonT2ZeroHitRate = "T2ZeroHitRate"
	// ReasonT2Serving means that the remote tier serves.
	ReasonT2Serving = "T2Serving"
	// ReasonInjectedEngineCrashLooping means that a wired engine keeps crashing.
	ReasonInjectedEngineCrashLooping = "InjectedEngineCrashLooping"
)

// ConditionQuotaExceeded is a condition type of a CacheTenant, beside ConditionReady: the
// tenant holds more index entries than its quota allows.
const ConditionQuotaExceeded = "QuotaExceeded"

// Reasons of Ready for a CacheTenant.
const (
	// ReasonObserved means that the entries of the tenant were counted.
	ReasonObserved = "Observed"
	// ReasonDuplicateTenantID means that another CacheTenant sets the tenant's quota.
	ReasonDuplicateTenantID = "DuplicateTenantID"
)

// Reasons of QuotaExceeded.
const (
	// ReasonNoQuota means that nobody has set a quota.
	ReasonNoQuota = "NoQuota"
	// ReasonWithinBudget means that the tenant holds no more than it may.
	ReasonWithinBudget = "WithinBudget"
	// ReasonOverEntryBudget means that the tenant holds more than it may.
	ReasonOverEntryBudget = "OverEntryBudget"
	// ReasonNotEffective means that the quota of another CacheTenant counts.
	ReasonNotEffective = "NotEffective"
)

// Reasons of events on a CacheBackend.
const (
	// EventInjectedEngineCrashLooping says that a wired engine keeps crashing.
	EventInjectedEngineCrashLooping = "InjectedEngineCrashLooping"
	// EventEngineSelectorUnmatched says that no pod is selected where some are expected.
	EventEngineSelectorUnmatched = "EngineSelectorUnmatched"
	// EventWorkloadConflict says that somebody else's object has the backend's name.
	EventWorkloadConflict = "WorkloadConflict"
	// EventBackendDegraded says that the workload got stuck without enough replicas.
	EventBackendDegraded = "BackendDegraded"
	// EventBackendRecovered says that a stuck workload came back.
	EventBackendRecovered = "BackendRecovered"
	// EventAwaitingFirstKVEvent says that only the first KV event is missing.
	EventAwaitingFirstKVEvent = "AwaitingFirstKVEvent"
	// EventKVEventsObserved says that a KV event was seen for the first time.
	EventKVEventsObserved = "KVEventsObserved"
	// EventNoKVEventsObserved says that no KV event was seen in time.
	EventNoKVEventsObserved = "NoKVEventsObserved"
	// EventFailClosedEnabled says that engines now depend on the cache to serve.
	EventFailClosedEnabled = "FailClosedEnabled"
	// EventFailOpenRestored says that engines serve without the cache again.
	EventFailOpenRestored = "FailOpenRestored"
)

// Reasons of events on a Pod.
const (
	// EventInjectedByCacheBackend says which backend the pod is wired to.
	EventInjectedByCacheBackend = "InjectedByCacheBackend"
	// EventSkippedByOperator says that the pod was left alone on request.
	EventSkippedByOperator = "SkippedByOperator"
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

// AnnotationCacheServerRestartTrigger is set on the pod template of an engine's Deployment,
// to roll it when the servers of its remote tier were replaced. The value names the new ones.
const AnnotationCacheServerRestartTrigger = "inferencecache.io/cache-server-restart-trigger"
