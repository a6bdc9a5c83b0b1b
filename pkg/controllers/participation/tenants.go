// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
	"inferencecache.io/inferencecache/pkg/controllers/policy"
)

// tenantStatuses returns the status of each tenant, in their order. A tenant that the index
// does not know holds nothing.
func tenantStatuses(rows []cacheserver.Tenant, tenants []v1alpha1.CacheTenant, now time.Time) []v1alpha1.CacheTenantStatus {
	held := make(map[string]int64, len(rows))
	for _, row := range rows {
		held[row.ID] = row.IndexEntries
	}
	owners := map[string]*v1alpha1.CacheTenant{}
	for _, owner := range policy.QuotaOwners(tenants) {
		owners[owner.Spec.TenantID] = owner
	}
	statuses := make([]v1alpha1.CacheTenantStatus, 0, len(tenants))
	for i := range tenants {
		tenant := &tenants[i]
		statuses = append(statuses, tenantStatus(tenant, owners[tenant.Spec.TenantID], held[tenant.Spec.TenantID], now))
	}
	return statuses
}

// tenantStatus is the status of a tenant that holds some entries. The owner is the object
// whose quota counts for that tenant, nil when nobody has set one.
func tenantStatus(tenant, owner *v1alpha1.CacheTenant, entries int64, now time.Time) v1alpha1.CacheTenantStatus {
	next := *tenant.Status.DeepCopy()
	next.ObservedGeneration = tenant.Generation
	next.IndexEntries = &entries
	ready, exceeded := tenantConditions(tenant, owner, entries)
	for _, condition := range []metav1.Condition{ready, exceeded} {
		condition.ObservedGeneration = tenant.Generation
		// A fraction of a second would be gone at the next read.
		condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		apimeta.SetStatusCondition(&next.Conditions, condition)
	}
	return next
}

func tenantConditions(tenant, owner *v1alpha1.CacheTenant, entries int64) (ready, exceeded metav1.Condition) {
	ready = metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonObserved,
		Message: "The entries of the tenant are counted.",
	}
	exceeded = metav1.Condition{Type: v1alpha1.ConditionQuotaExceeded, Status: metav1.ConditionFalse}
	switch {
	case owner == nil:
		exceeded.Reason, exceeded.Message = v1alpha1.ReasonNoQuota, "There is no quota."
	case owner.Namespace != tenant.Namespace || owner.Name != tenant.Name:
		name := owner.Namespace + "/" + owner.Name
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonDuplicateTenantID
		ready.Message = fmt.Sprintf("CacheTenant %s sets the quota of tenant %q.", name, tenant.Spec.TenantID)
		exceeded.Reason = v1alpha1.ReasonNotEffective
		exceeded.Message = fmt.Sprintf("The quota that counts is that of CacheTenant %s.", name)
	default:
		budget := *tenant.Spec.Quota.MaxIndexEntries
		exceeded.Reason = v1alpha1.ReasonWithinBudget
		if entries > budget {
			exceeded.Status, exceeded.Reason = metav1.ConditionTrue, v1alpha1.ReasonOverEntryBudget
		}
		exceeded.Message = fmt.Sprintf("The index may hold %d entries of the tenant.", budget)
	}
	return ready, exceeded
}
