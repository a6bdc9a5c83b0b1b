// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// start has a fraction of a second, as clocks do and stored times do not.
var start = time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC)

const address = "cache.ns1.svc.cluster.local:65432"

type change func(*v1alpha1.CacheBackend)

// newBackend is a managed LMCache server for VLLM with one replica, as defaults fill it in.
func newBackend(changes ...change) *v1alpha1.CacheBackend {
	backend := &v1alpha1.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "cache", UID: "U", Generation: 1},
		Spec: v1alpha1.CacheBackendSpec{
			Runtime:        v1alpha1.RuntimeVLLM,
			Type:           v1alpha1.CacheTypeLMCache,
			DeploymentKind: v1alpha1.DeploymentKindDeployment,
			Replicas:       new(int32(1)),
			RemoteStorage:  &v1alpha1.RemoteStorageSpec{Provider: "LMCacheServer", Ownership: "Managed"},
			Observation:    &v1alpha1.ObservationSpec{FirstEventTimeout: &metav1.Duration{Duration: 5 * time.Minute}},
			Integration: &v1alpha1.IntegrationSpec{
				Mode: v1alpha1.IntegrationModeOffload, Role: v1alpha1.IntegrationRoleReadWrite, FailOpen: new(true),
			},
		},
	}
	for _, change := range changes {
		change(backend)
	}
	return backend
}

func hostOnly(backend *v1alpha1.CacheBackend) { backend.Spec.RemoteStorage = nil }

func eventsOnly(backend *v1alpha1.CacheBackend) {
	backend.Spec.RemoteStorage = nil
	backend.Spec.Integration.Mode = v1alpha1.IntegrationModeEventsOnly
}

func hiCache(backend *v1alpha1.CacheBackend) {
	backend.Spec.Runtime, backend.Spec.Type = v1alpha1.RuntimeSGLang, v1alpha1.CacheTypeSGLangHiCache
	backend.Spec.RemoteStorage = nil
}

func statefulSet(backend *v1alpha1.CacheBackend) {
	backend.Spec.DeploymentKind = v1alpha1.DeploymentKindStatefulSet
}

func optedOut(backend *v1alpha1.CacheBackend) { gate("false")(backend) }

func gate(value string) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Annotations = map[string]string{v1alpha1.AnnotationRequireKVEvents: value}
	}
}

func external(provider v1alpha1.StorageProvider, endpoint string) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{
			Provider: provider, Ownership: v1alpha1.StorageOwnershipExternal, Endpoint: endpoint,
		}
	}
}

func managed(provider v1alpha1.StorageProvider) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{Provider: provider, Ownership: v1alpha1.StorageOwnershipManaged}
	}
}

func timeout(duration time.Duration) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Spec.Observation = &v1alpha1.ObservationSpec{FirstEventTimeout: &metav1.Duration{Duration: duration}}
	}
}

func selector(labels map[string]string) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: labels}
	}
}

func failOpenIs(value bool) change {
	return func(backend *v1alpha1.CacheBackend) { backend.Spec.Integration.FailOpen = &value }
}

// available is a pass that finds everything in place, with that many replicas.
func available(replicas int32) Observation {
	return Observation{
		Endpoint: address,
		Workload: Workload{
			Exists: true, Controlled: true, Generation: 1, ObservedGeneration: 1,
			DesiredReplicas: replicas, Replicas: replicas, UpdatedReplicas: replicas,
			AvailableReplicas: replicas, ReadyReplicas: replicas,
			Progressing:     &Progress{Status: corev1.ConditionTrue, Reason: newReplicaSetAvailable},
			CurrentRevision: "r1", UpdateRevision: "r1", SpecChangedAt: start,
			Deadline: defaultDeadline, PodsListed: true,
		},
	}
}

// with is a pass that finds the available workload changed.
func with(observation Observation, change func(*Workload)) Observation {
	change(&observation.Workload)
	return observation
}

// broken is a pass whose one pod was Ready and is no more.
func broken() Observation {
	return with(available(1), func(w *Workload) {
		w.AvailableReplicas, w.ReadyReplicas = 0, 0
		w.UnreadyPods = []UnreadyPod{{CreatedAt: start, WasReady: true}}
	})
}
