// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"
)

func TestSolePolicy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		names  []string
		detail string
	}{
		{name: "alone"},
		{name: "itself", names: []string{"tune"}},
		{name: "another", names: []string{"tune", "other"}, detail: `"other"`},
		{name: "smallest", names: []string{"z", "b", "tune", "a"}, detail: `"a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			errs := ValidateSolePolicy("tune", tt.names)
			if tt.detail == "" {
				checkErrors(t, nil, errs)
				return
			}
			checkErrors(t, []string{forbidden + " metadata.name"}, errs)
			if !strings.Contains(errs[0].Detail, tt.detail) {
				t.Errorf("detail is %q, want %s in it", errs[0].Detail, tt.detail)
			}
		})
	}
}

func TestUniqueTenant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		tenant  Tenant
		tenants []Tenant
		detail  string
	}{
		{name: "alone", tenant: Tenant{Name: "a", TenantID: "acme"}},
		{name: "itself", tenant: Tenant{Name: "a", TenantID: "acme"}, tenants: []Tenant{{Name: "a", TenantID: "acme"}}},
		{name: "other ids", tenant: Tenant{Name: "a", TenantID: "acme"}, tenants: []Tenant{{Name: "b", TenantID: "Acme"}, {Name: "c", TenantID: "acme "}}},
		{name: "smallest", tenant: Tenant{Name: "m", TenantID: "acme"}, detail: `"b"`,
			tenants: []Tenant{{Name: "z", TenantID: "acme"}, {Name: "b", TenantID: "acme"}, {Name: "a", TenantID: "other"}}},
		{name: "a missing id is no duplicate", tenant: Tenant{Name: "a"}, tenants: []Tenant{{Name: "b"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			errs := ValidateUniqueTenant(tt.tenant, tt.tenants)
			if tt.detail == "" {
				checkErrors(t, nil, errs)
				return
			}
			checkErrors(t, []string{invalid + " spec.tenantID"}, errs)
			if !strings.Contains(errs[0].Detail, tt.detail) {
				t.Errorf("detail is %q, want %s in it", errs[0].Detail, tt.detail)
			}
		})
	}
}
