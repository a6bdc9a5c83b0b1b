// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
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
