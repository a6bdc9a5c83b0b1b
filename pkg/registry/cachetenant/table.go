// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachetenant

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

var table = resource.NewTable([]metav1.TableColumnDefinition{
	{Name: "Tenant", Type: "string", Description: "Identity of the tenant in the index."},
	{Name: "Entries", Type: "integer", Description: "Number of index entries that the tenant holds; blank when not counted."},
	{Name: "Quota", Type: "integer", Description: "Number of index entries that the tenant may hold; blank without a bound."},
	{Name: "Isolation", Type: "string", Description: "How the tenant is kept apart from others."},
}, cells)

func cells(tenant *inferencecache.CacheTenant) []any {
	var quota any
	if tenant.Spec.Quota != nil {
		quota = resource.Cell(tenant.Spec.Quota.MaxIndexEntries)
	}
	return []any{tenant.Spec.TenantID, resource.Cell(tenant.Status.IndexEntries), quota, string(tenant.Spec.IsolationMode)}
}
