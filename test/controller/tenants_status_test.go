// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// createTenant makes a tenant, without a quota when the budget is nil.
func createTenant(t *testing.T, namespace, name, id string, budget *int64) *v1alpha1.CacheTenant {
	t.Helper()
	tenant := &v1alpha1.CacheTenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.CacheTenantSpec{TenantID: id},
	}
	if budget != nil {
		tenant.Spec.Quota = &v1alpha1.TenantQuota{MaxIndexEntries: budget}
	}
	tenant, err := env.inference.InferencecacheV1alpha1().CacheTenants(namespace).Create(t.Context(), tenant, metav1.CreateOptions{})
	must(t, err)
	return tenant
}

func getTenant(t *testing.T, tenant *v1alpha1.CacheTenant) *v1alpha1.CacheTenant {
	t.Helper()
	tenant, err := env.inference.InferencecacheV1alpha1().CacheTenants(tenant.Namespace).Get(t.Context(), tenant.Name, metav1.GetOptions{})
	must(t, err)
	return tenant
}

// waitTenant waits until a status of the present generation says: entries, Ready, QuotaExceeded.
func waitTenant(t *testing.T, tenant *v1alpha1.CacheTenant, want string) *v1alpha1.CacheTenant {
	t.Helper()
	var got *v1alpha1.CacheTenant
	eventually(t, "the tenant says "+want, func(ctx context.Context) (err error) {
		got, err = env.inference.InferencecacheV1alpha1().CacheTenants(tenant.Namespace).Get(ctx, tenant.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status := got.Status
		if status.ObservedGeneration != got.Generation || status.IndexEntries == nil {
			return fmt.Errorf("generation %d is observed, not %d", status.ObservedGeneration, got.Generation)
		}
		said := []string{fmt.Sprint(*status.IndexEntries)}
		for _, conditionType := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionQuotaExceeded} {
			if condition := apimeta.FindStatusCondition(status.Conditions, conditionType); condition != nil {
				said = append(said, fmt.Sprintf("%s/%s", condition.Status, condition.Reason))
			}
		}
		if got := strings.Join(said, " "); got != want {
			return fmt.Errorf("it says %s", got)
		}
		return nil
	})
	return got
}

// TestTenants restarts the controller, and must not run beside other tests.
func TestTenants(t *testing.T) {
	s := newStage(t)
	one, two := newNamespace(t), newNamespace(t)
	if one > two {
		one, two = two, one
	}
	first := createTenant(t, one, "x", one, nil)
	waitTenant(t, first, "0 True/Observed False/NoQuota")
	s.counts(map[string]int64{one: 5, "": 9})
	before := waitTenant(t, first, "5 True/Observed False/NoQuota")

	second := createTenant(t, two, "y", one, new(int64(3)))
	owner := waitTenant(t, second, "5 True/Observed True/OverEntryBudget")
	other := waitTenant(t, first, "5 False/DuplicateTenantID False/NotEffective")
	if ready := apimeta.FindStatusCondition(other.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(ready.Message, two+"/y") {
		t.Errorf("the message is %q", ready.Message)
	}
	if transition(before, v1alpha1.ConditionQuotaExceeded) != transition(other, v1alpha1.ConditionQuotaExceeded) {
		t.Error("the time of a condition moved, and its status did not")
	}

	s.waitTicks(2)
	if got := getTenant(t, second); got.ResourceVersion != owner.ResourceVersion {
		t.Errorf("nothing has changed and the status was written: %+v", got.Status)
	}

	owner.Spec.Quota.MaxIndexEntries = new(int64(5))
	_, err := env.inference.InferencecacheV1alpha1().CacheTenants(two).Update(t.Context(), owner, metav1.UpdateOptions{})
	must(t, err)
	waitTenant(t, second, "5 True/Observed False/WithinBudget")
	s.counts(nil)
	waitTenant(t, second, "0 True/Observed False/WithinBudget")
	must(t, env.inference.InferencecacheV1alpha1().CacheTenants(two).Delete(t.Context(), second.Name, metav1.DeleteOptions{}))
	waitTenant(t, first, "0 True/Observed False/NoQuota")
}

func transition(tenant *v1alpha1.CacheTenant, conditionType string) metav1.Time {
	return apimeta.FindStatusCondition(tenant.Status.Conditions, conditionType).LastTransitionTime
}
