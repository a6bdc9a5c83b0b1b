// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strconv"
	"strings"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// match returns the backends that select a pod, the first by name first. A backend without
// a selector selects nothing: with one that is empty it would claim every pod.
func match(backends []inferencecache.CacheBackend, podLabels map[string]string) []*inferencecache.CacheBackend {
	var matched []*inferencecache.CacheBackend
	for i := range backends {
		if selects(backends[i].Spec.EngineSelector, podLabels) {
			matched = append(matched, &backends[i])
		}
	}
	slices.SortFunc(matched, func(a, b *inferencecache.CacheBackend) int { return strings.Compare(a.Name, b.Name) })
	return matched
}

func selects(selector *inferencecache.EngineSelector, podLabels map[string]string) bool {
	if selector == nil || len(selector.MatchLabels) == 0 {
		return false
	}
	for key, want := range selector.MatchLabels {
		if got, ok := podLabels[key]; !ok || got != want {
			return false
		}
	}
	return true
}

// optsOut says whether a pod asks to be left alone. Anything but a clear no counts as a
// yes: whoever writes the annotation wants something.
func optsOut(annotations map[string]string) bool {
	value := annotations[v1alpha1.AnnotationSkipInject]
	if value == "" {
		return false
	}
	if parsed, err := strconv.ParseBool(value); err == nil {
		return parsed
	}
	return !slices.Contains([]string{"no", "off", "disable", "disabled"}, strings.ToLower(value))
}
