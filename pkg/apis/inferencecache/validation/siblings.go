// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Tenant is what ValidateUniqueTenant needs to know of a CacheTenant.
type Tenant struct {
	Name     string
	TenantID string
}

// ValidateSolePolicy refuses a CachePolicy when its namespace has another one. The names
// are those of all CachePolicies of the namespace; the policy's own is ignored.
func ValidateSolePolicy(name string, names []string) field.ErrorList {
	conflict, found := "", false
	for _, other := range names {
		if other != name && (!found || other < conflict) {
			conflict, found = other, true
		}
	}
	if !found {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "name"),
		fmt.Sprintf("the namespace has the CachePolicy %q already and may have only one; change or delete that one", conflict))}
}

// ValidateUniqueTenant refuses a CacheTenant whose id another one of its namespace holds.
// The tenants are all CacheTenants of the namespace; the one of the same name is ignored.
func ValidateUniqueTenant(tenant Tenant, tenants []Tenant) field.ErrorList {
	if tenant.TenantID == "" {
		return nil
	}
	conflict, found := "", false
	for _, other := range tenants {
		if other.Name == tenant.Name || other.TenantID != tenant.TenantID {
			continue
		}
		if !found || other.Name < conflict {
			conflict, found = other.Name, true
		}
	}
	if !found {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "tenantID"), tenant.TenantID,
		fmt.Sprintf("is held by the CacheTenant %q of this namespace; choose another id, or change that one", conflict))}
}
