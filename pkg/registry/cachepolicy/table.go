// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachepolicy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

var table = resource.NewTable([]metav1.TableColumnDefinition{
	{Name: "Eviction", Type: "string", Description: "Which index entries are dropped first."},
}, func(policy *inferencecache.CachePolicy) []any {
	return []any{string(policy.Spec.Eviction)}
})
