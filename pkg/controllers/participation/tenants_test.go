// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// newTenant has no quota when its budget is below zero.
func newTenant(namespace, name, id string, budget int64) v1alpha1.CacheTenant {
	tenant := v1alpha1.CacheTenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 3},
		Spec:       v1alpha1.CacheTenantSpec{TenantID: id},
	}
	if budget >= 0 {
		tenant.Spec.Quota = &v1alpha1.TenantQuota{MaxIndexEntries: &budget}
	}
	return tenant
}

func TestTenantStatuses(t *testing.T) {
	t.Parallel()
	const none = -1
	empty := newTenant("b", "empty", "T", none)
	empty.Spec.Quota = &v1alpha1.TenantQuota{}
	rows := []cacheserver.Tenant{{ID: "", IndexEntries: 9}, {ID: "T", IndexEntries: 5}, {ID: "U", IndexEntries: 7}}
	const (
		observed  = "True/Observed"
		duplicate = "False/DuplicateTenantID"
		noQuota   = "False/NoQuota"
		within    = "False/WithinBudget"
		over      = "True/OverEntryBudget"
		other     = "False/NotEffective"
	)
	type row struct {
		Entries         int64
		Ready, Exceeded string
	}
	for name, tt := range map[string]struct {
		tenants []v1alpha1.CacheTenant
		want    []row
	}{
		"no quota":             {[]v1alpha1.CacheTenant{newTenant("a", "x", "T", none)}, []row{{5, observed, noQuota}}},
		"a quota of nothing":   {[]v1alpha1.CacheTenant{empty}, []row{{5, observed, noQuota}}},
		"below":                {[]v1alpha1.CacheTenant{newTenant("a", "x", "T", 6)}, []row{{5, observed, within}}},
		"exactly":              {[]v1alpha1.CacheTenant{newTenant("a", "x", "T", 5)}, []row{{5, observed, within}}},
		"above":                {[]v1alpha1.CacheTenant{newTenant("a", "x", "T", 4)}, []row{{5, observed, over}}},
		"nothing allowed":      {[]v1alpha1.CacheTenant{newTenant("a", "x", "T", 0)}, []row{{5, observed, over}}},
		"nothing held":         {[]v1alpha1.CacheTenant{newTenant("a", "x", "V", 0)}, []row{{0, observed, within}}},
		"nothing held, no row": {[]v1alpha1.CacheTenant{newTenant("a", "x", "V", none)}, []row{{0, observed, noQuota}}},
		"not the name":         {[]v1alpha1.CacheTenant{newTenant("a", "T", "V", none)}, []row{{0, observed, noQuota}}},
		"the quota is another's": {
			[]v1alpha1.CacheTenant{newTenant("a", "x", "T", none), newTenant("b", "y", "T", 3)},
			[]row{{5, duplicate, other}, {5, observed, over}},
		},
		"two quotas": {
			[]v1alpha1.CacheTenant{newTenant("b", "a", "T", 3), newTenant("a", "z", "T", 9), newTenant("a", "y", "T", 8)},
			[]row{{5, duplicate, other}, {5, duplicate, other}, {5, observed, within}},
		},
		"two without": {
			[]v1alpha1.CacheTenant{newTenant("a", "x", "T", none), empty},
			[]row{{5, observed, noQuota}, {5, observed, noQuota}},
		},
		"two tenants": {
			[]v1alpha1.CacheTenant{newTenant("a", "x", "T", 5), newTenant("a", "y", "U", 5)},
			[]row{{5, observed, within}, {7, observed, over}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []row
			for _, status := range tenantStatuses(rows, tt.tenants, start) {
				if status.ObservedGeneration != 3 || len(status.Conditions) != 2 {
					t.Errorf("the status is %+v", status)
				}
				for _, err := range metav1validation.ValidateConditions(status.Conditions, field.NewPath("conditions")) {
					t.Error(err)
				}
				got = append(got, row{*status.IndexEntries, said(t, &status, "Ready"), said(t, &status, "QuotaExceeded")})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
		})
	}
}

func said(t *testing.T, status *v1alpha1.CacheTenantStatus, conditionType string) string {
	t.Helper()
	condition := apimeta.FindStatusCondition(status.Conditions, conditionType)
	if condition == nil || condition.ObservedGeneration != status.ObservedGeneration || condition.Message == "" {
		t.Fatalf("%s is %+v", conditionType, condition)
	}
	return string(condition.Status) + "/" + condition.Reason
}

// TestTenantTransitions: the time of a condition is that of the change of its status, and the
// observed generation is always the present one.
func TestTenantTransitions(t *testing.T) {
	t.Parallel()
	tenants := []v1alpha1.CacheTenant{newTenant("a", "x", "T", 5)}
	now := start
	exceeded := func(entries int64) metav1.Condition {
		now = now.Add(time.Minute)
		status := tenantStatuses([]cacheserver.Tenant{{ID: "T", IndexEntries: entries}}, tenants, now)[0]
		tenants[0].Status = status
		return *apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionQuotaExceeded)
	}
	first := exceeded(1)
	if !first.LastTransitionTime.Time.Equal(now.Truncate(time.Second)) {
		t.Errorf("the time is %s, at %s", first.LastTransitionTime, now)
	}
	tenants[0].Generation, tenants[0].Spec.Quota.MaxIndexEntries = 4, new(int64(9))
	if second := exceeded(2); second.LastTransitionTime != first.LastTransitionTime || second.ObservedGeneration != 4 {
		t.Errorf("without a change of status: %+v", second)
	}
	if third := exceeded(10); !third.LastTransitionTime.Time.Equal(now.Truncate(time.Second)) {
		t.Errorf("with a change of status: %+v", third)
	}
}

func TestDuplicateNamesTheOwner(t *testing.T) {
	t.Parallel()
	statuses := tenantStatuses(nil, []v1alpha1.CacheTenant{newTenant("a", "x", "T", -1), newTenant("b", "y", "T", 3)}, start)
	if ready := apimeta.FindStatusCondition(statuses[0].Conditions, v1alpha1.ConditionReady); !strings.Contains(ready.Message, "b/y") {
		t.Errorf("the message is %q", ready.Message)
	}
}
