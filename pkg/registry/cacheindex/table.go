// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

var table = resource.NewTable([]metav1.TableColumnDefinition{
	{Name: "Prefixes", Type: "integer", Description: "Number of prefixes in the index; blank when it has not been read yet."},
	{Name: "Changed", Type: "date", Description: "Time since the view of the index has changed."},
}, cells)

func cells(index *inferencecache.CacheIndex) []any {
	var prefixes, changed any
	if index.Status.Prefixes != nil && index.Status.Prefixes.Summary != nil {
		prefixes = index.Status.Prefixes.Summary.Total
	}
	if !index.Status.LastUpdated.IsZero() {
		changed = metatable.ConvertToHumanReadableDateType(index.Status.LastUpdated)
	}
	return []any{prefixes, changed}
}
