// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// ownKeys are the annotations that only the webhook writes. A template that carries them
// already was copied from a wired pod.
var ownKeys = []string{
	v1alpha1.AnnotationInjectedBy,
	v1alpha1.AnnotationInjectedByUID,
	v1alpha1.AnnotationInjectSkipped,
}

// stamp marks a wired pod with its backend. The pod is changed in place.
func stamp(pod *corev1.Pod, backend *inferencecache.CacheBackend) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[v1alpha1.AnnotationInjectedBy] = key(backend)
	pod.Annotations[v1alpha1.AnnotationInjectedByUID] = string(backend.UID)
	delete(pod.Annotations, v1alpha1.AnnotationInjectSkipped)
}

// markSkipped returns the pod marked as left alone on request.
func markSkipped(pod *corev1.Pod) *corev1.Pod {
	marked := withAnnotations(pod)
	delete(marked.Annotations, v1alpha1.AnnotationInjectedBy)
	delete(marked.Annotations, v1alpha1.AnnotationInjectedByUID)
	marked.Annotations[v1alpha1.AnnotationInjectSkipped] = v1alpha1.InjectSkippedByAnnotation
	return marked
}

// strip returns the pod without marks that it must not carry. The pod itself is returned
// when it has none.
func strip(pod *corev1.Pod) *corev1.Pod {
	marked := false
	for _, k := range ownKeys {
		marked = marked || pod.Annotations[k] != ""
	}
	if !marked {
		return pod
	}
	stripped := withAnnotations(pod)
	for _, k := range ownKeys {
		delete(stripped.Annotations, k)
	}
	if len(stripped.Annotations) == 0 {
		stripped.Annotations = nil
	}
	return stripped
}

// withAnnotations returns a shallow copy of a pod with annotations of its own.
func withAnnotations(pod *corev1.Pod) *corev1.Pod {
	copied := *pod
	copied.Annotations = maps.Clone(pod.Annotations)
	if copied.Annotations == nil {
		copied.Annotations = map[string]string{}
	}
	return &copied
}

func key(backend *inferencecache.CacheBackend) string {
	return backend.Namespace + "/" + backend.Name
}
