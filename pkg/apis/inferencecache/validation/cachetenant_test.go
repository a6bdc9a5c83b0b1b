// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestCacheTenant(t *testing.T) {
	t.Parallel()
	crypto := map[string]runtime.RawExtension{"keyRef": {}, "algorithm": {}}
	tests := []struct {
		name string
		spec inferencecache.CacheTenantSpec
		want []string
	}{
		{name: "plain", spec: inferencecache.CacheTenantSpec{TenantID: "acme"}},
		{name: "blank ids admit", spec: inferencecache.CacheTenantSpec{TenantID: " \t"}},
		{name: "a missing id is reported by its tag", spec: inferencecache.CacheTenantSpec{}},
		{name: "reserved id", spec: inferencecache.CacheTenantSpec{TenantID: "inferencecache.io/probe"}, want: []string{invalid + " spec.tenantID"}},
		{name: "like the reserved id", spec: inferencecache.CacheTenantSpec{TenantID: "inferencecache.io/Probe"}},
		{name: "empty crypto", spec: inferencecache.CacheTenantSpec{TenantID: "a", Crypto: map[string]runtime.RawExtension{}}},
		{name: "crypto", spec: inferencecache.CacheTenantSpec{TenantID: "a", Crypto: crypto}, want: []string{tooMany + " spec.crypto"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkErrors(t, tt.want, ValidateCacheTenant(&inferencecache.CacheTenant{Spec: tt.spec}))
		})
	}
	errs := ValidateCacheTenant(&inferencecache.CacheTenant{Spec: inferencecache.CacheTenantSpec{TenantID: "a", Crypto: crypto}})
	if !strings.Contains(errs[0].Detail, "algorithm, keyRef") {
		t.Errorf("detail does not name the members in order: %s", errs[0].Detail)
	}
}
