// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestStatusUpdates(t *testing.T) {
	t.Parallel()
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Observed", LastTransitionTime: metav1.Now()}
	bad := ready
	bad.Status = "Maybe"
	functions := map[string]func(newConditions, oldConditions []metav1.Condition) field.ErrorList{
		"CacheBackend": func(newConditions, oldConditions []metav1.Condition) field.ErrorList {
			newCB, oldCB := validBackend(), validBackend()
			// A spec that today's rules refuse does not matter.
			newCB.Spec.Autoscaling = &inferencecache.AutoscalingSpec{}
			newCB.Status.Conditions, oldCB.Status.Conditions = newConditions, oldConditions
			return ValidateCacheBackendStatusUpdate(newCB, oldCB)
		},
		"CachePolicy": func(newConditions, oldConditions []metav1.Condition) field.ErrorList {
			return ValidateCachePolicyStatusUpdate(
				&inferencecache.CachePolicy{Status: inferencecache.CachePolicyStatus{Conditions: newConditions}},
				&inferencecache.CachePolicy{Status: inferencecache.CachePolicyStatus{Conditions: oldConditions}})
		},
		"CacheTenant": func(newConditions, oldConditions []metav1.Condition) field.ErrorList {
			return ValidateCacheTenantStatusUpdate(
				&inferencecache.CacheTenant{Status: inferencecache.CacheTenantStatus{Conditions: newConditions}},
				&inferencecache.CacheTenant{Status: inferencecache.CacheTenantStatus{Conditions: oldConditions}})
		},
	}
	tests := []struct {
		name     string
		new, old []metav1.Condition
		want     []string
	}{
		{name: "none"},
		{name: "valid", new: []metav1.Condition{ready}},
		{name: "duplicate type", new: []metav1.Condition{ready, ready}, want: []string{"FieldValueDuplicate status.conditions[1]"}},
		{name: "unknown status", new: []metav1.Condition{bad}, want: []string{notSupported + " status.conditions[0].status"}},
		{name: "unknown status kept", new: []metav1.Condition{bad}, old: []metav1.Condition{bad}},
		{name: "empty condition", new: []metav1.Condition{{}}, want: []string{
			required + " status.conditions[0].type", required + " status.conditions[0].status",
			required + " status.conditions[0].lastTransitionTime", required + " status.conditions[0].reason",
		}},
	}
	for kind, validate := range functions {
		for _, tt := range tests {
			t.Run(kind+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				var got []string
				for _, err := range validate(tt.new, tt.old) {
					got = append(got, string(err.Type)+" "+err.Field)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("errors (-want +got):\n%s", diff)
				}
			})
		}
	}
}
