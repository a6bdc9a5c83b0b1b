// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// ValidateCacheBackendStatusUpdate validates a write of the status of a CacheBackend, and
// nothing but the status: an object whose spec today's rules would refuse still takes one.
func ValidateCacheBackendStatusUpdate(newCB, oldCB *inferencecache.CacheBackend) field.ErrorList {
	return validateConditionsUpdate(newCB.Status.Conditions, oldCB.Status.Conditions)
}

// ValidateCachePolicyStatusUpdate validates a write of the status of a CachePolicy.
func ValidateCachePolicyStatusUpdate(newPolicy, oldPolicy *inferencecache.CachePolicy) field.ErrorList {
	return validateConditionsUpdate(newPolicy.Status.Conditions, oldPolicy.Status.Conditions)
}

// ValidateCacheTenantStatusUpdate validates a write of the status of a CacheTenant.
func ValidateCacheTenantStatusUpdate(newTenant, oldTenant *inferencecache.CacheTenant) field.ErrorList {
	return validateConditionsUpdate(newTenant.Status.Conditions, oldTenant.Status.Conditions)
}

// validateConditionsUpdate refuses only the faults that a write brings in, so that a writer
// of other fields is not held up by conditions that it does not touch. All else in a status
// is a matter of bounds, which generated code checks.
func validateConditionsUpdate(newConditions, oldConditions []metav1.Condition) field.ErrorList {
	fldPath := field.NewPath("status", "conditions")
	errs := Introduced(
		metav1validation.ValidateConditions(newConditions, fldPath),
		metav1validation.ValidateConditions(oldConditions, fldPath),
	)
	for _, err := range errs {
		// The shared check takes conditions to be checked by generated code as well. Ours
		// are not, and the server would log the difference as a fault.
		err.CoveredByDeclarative = false
		switch value := err.BadValue.(type) {
		case string:
			err.BadValue = abbreviated(value)
		case metav1.ConditionStatus:
			err.BadValue = abbreviated(string(value))
		}
	}
	return errs
}
