// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// news is what is to be told about a pod.
type news struct {
	reason, note string
	// backend is the one that the news is about too, nil if there is none.
	backend *v1alpha1.CacheBackend
}

// candidate says whether there may be news about a pod with these annotations. It is asked
// about every pod of the cluster.
func candidate(annotations map[string]string) bool {
	return annotations[v1alpha1.AnnotationInjectedBy] != "" || skipped(annotations)
}

// skipped says whether a pod asked to be left alone, and was. The mark alone may be copied.
func skipped(annotations map[string]string) bool {
	return annotations[v1alpha1.AnnotationInjectSkipped] == v1alpha1.InjectSkippedByAnnotation && engine.OptsOut(annotations)
}

// decide returns the news about a pod with these annotations, nil if there is none. Whoever
// creates a pod can write annotations where the webhook is not asked: what they say about a
// backend is told only if it is true of the backend as it is now, which lookup reads.
func decide(annotations map[string]string, lookup func(types.NamespacedName) (*v1alpha1.CacheBackend, error)) (*news, error) {
	injectedBy := annotations[v1alpha1.AnnotationInjectedBy]
	if injectedBy == "" {
		if !skipped(annotations) {
			return nil, nil
		}
		return &news{reason: v1alpha1.EventSkippedByOperator, note: fmt.Sprintf(
			"Not wired to a cache: the pod opts out by its annotation %s (%s).", v1alpha1.AnnotationSkipInject, v1alpha1.InjectSkippedByAnnotation)}, nil
	}
	key, ok := parseReference(injectedBy)
	uid := types.UID(annotations[v1alpha1.AnnotationInjectedByUID])
	if !ok || uid == "" {
		return nil, nil
	}
	backend, err := lookup(key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading backend %s: %w", key, err)
	case backend.UID != uid: // Forged, or about a former backend of that name.
		return nil, nil
	}
	return &news{reason: v1alpha1.EventInjectedByCacheBackend, note: fmt.Sprintf("Wired to CacheBackend %q.", injectedBy), backend: backend}, nil
}

// parseReference reads namespace/name, as the webhook writes it.
func parseReference(reference string) (types.NamespacedName, bool) {
	namespace, name, _ := strings.Cut(reference, "/")
	ok := len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}
