// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// maxValue is more than any value that counts: a reference has at most 317 bytes. What is
// cut there is malformed, and a free text that opts out still does.
const maxValue = 320

// keptAnnotations are those that decide.
var keptAnnotations = []string{
	v1alpha1.AnnotationInjectedBy,
	v1alpha1.AnnotationInjectedByUID,
	v1alpha1.AnnotationInjectSkipped,
	v1alpha1.AnnotationSkipInject,
}

// CacheByObject bounds what a manager's cache holds of pods. All pods of the cluster are in
// it, and hardly any of them is an engine.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: trim}}
}

// trim leaves of a pod's metadata what identifies it, and of a candidate the annotations
// that decide.
func trim(object any) (any, error) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok { // What is left of a pod whose deletion was missed.
		return object, nil
	}
	kept := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	if candidate(pod.Annotations) {
		kept.Annotations = map[string]string{}
		for _, key := range keptAnnotations {
			if value, ok := pod.Annotations[key]; ok {
				kept.Annotations[key] = cut(value)
			}
		}
	}
	pod.ObjectMeta = kept
	return pod, nil
}

// cut bounds what a pod can make the cache hold.
func cut(value string) string {
	if len(value) <= maxValue {
		return value
	}
	return strings.Clone(value[:maxValue])
}
