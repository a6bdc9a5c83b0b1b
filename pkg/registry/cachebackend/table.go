// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

var table = resource.NewTable([]metav1.TableColumnDefinition{
	{Name: "Type", Type: "string", Description: "Cache implementation inside the engine."},
	{Name: "Ready", Type: "string", Description: "Status of the Ready condition."},
	{Name: "Matched", Type: "integer", Description: "Number of engine pods that the selector matched; blank when not counted."},
	{Name: "Endpoint", Type: "string", Description: "Address of the remote tier."},
	{Name: "Prefixes", Type: "integer", Description: "Number of prefixes that the index attributes to this backend."},
	{Name: "LastEvent", Type: "date", Description: "Age of the latest KV event."},
}, cells)

func cells(backend *inferencecache.CacheBackend) []any {
	status := &backend.Status
	var ready, prefixes any
	if condition := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); condition != nil {
		ready = string(condition.Status)
	}
	lastEvent := "<none>"
	if participation := status.IndexParticipation; participation != nil {
		prefixes = participation.PrefixCount
		if participation.LastEventAt != nil {
			lastEvent = metatable.ConvertToHumanReadableDateType(*participation.LastEventAt)
		}
	}
	var endpoint any
	if status.Endpoint != "" {
		endpoint = status.Endpoint
	}
	return []any{string(backend.Spec.Type), ready, resource.Cell(status.MatchedEnginePods), endpoint, prefixes, lastEvent}
}
