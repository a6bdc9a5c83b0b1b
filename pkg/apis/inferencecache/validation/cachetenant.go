// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// ValidateCacheTenant validates a CacheTenant after defaulting. Whether its id is taken is
// for ValidateUniqueTenant.
func ValidateCacheTenant(tenant *inferencecache.CacheTenant) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateReservedTenant(tenant.Spec.TenantID, spec.Child("tenantID"))
	errs = append(errs, validateCrypto(&tenant.Spec, spec.Child("crypto"))...)
	return errs
}

func validateReservedTenant(tenantID string, fldPath *field.Path) field.ErrorList {
	if tenantID != v1alpha1.ReservedProbeTenantID {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, tenantID,
		"is reserved for the functional probe; choose another id")}
}

// validateCrypto refuses every member of the reserved object, which is why they survive
// decoding: a tenant that asks for encryption must not be admitted without it.
func validateCrypto(spec *inferencecache.CacheTenantSpec, fldPath *field.Path) field.ErrorList {
	if len(spec.Crypto) == 0 {
		return nil
	}
	members := slices.Sorted(maps.Keys(spec.Crypto))
	err := field.TooMany(fldPath, len(members), 0)
	err.BadValue = excerpt{printed: len(members), whole: members}
	err.Detail = fmt.Sprintf("is reserved and must be empty; remove %s", brief(strings.Join(members, ", ")))
	return field.ErrorList{err}
}
