// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func newPolicy(namespace, name string, spec v1alpha1.CachePolicySpec) v1alpha1.CachePolicy {
	return v1alpha1.CachePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// newTenant has no quota when its budget is below zero.
func newTenant(namespace, name, id string, budget int64) v1alpha1.CacheTenant {
	tenant := v1alpha1.CacheTenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.CacheTenantSpec{TenantID: id, IsolationMode: v1alpha1.IsolationModeFairness},
	}
	if budget >= 0 {
		tenant.Spec.Quota = &v1alpha1.TenantQuota{MaxIndexEntries: &budget}
	}
	return tenant
}

// TestDesiredState compares what goes over the wire, where absent and zero may differ.
func TestDesiredState(t *testing.T) {
	t.Parallel()
	policies := func(items ...v1alpha1.CachePolicy) []v1alpha1.CachePolicy { return items }
	tenants := func(items ...v1alpha1.CacheTenant) []v1alpha1.CacheTenant { return items }
	unset := v1alpha1.CachePolicySpec{}
	bare := newTenant("a", "x", "T", 0)
	bare.Spec.IsolationMode = ""
	empty := newTenant("a", "a", "T", -1)
	empty.Spec.Quota = &v1alpha1.TenantQuota{}
	for name, tt := range map[string]struct {
		policies []v1alpha1.CachePolicy
		tenants  []v1alpha1.CacheTenant
		want     string
	}{
		"nothing": {want: `{"version":7,"policies":[]}`},
		"nothing set": {
			policies: policies(newPolicy("orchid", "p", unset)),
			want:     `{"version":7,"policies":[{"namespace":"orchid","eviction":"lru"}]}`,
		},
		"defaults and a quota": {
			policies: policies(newPolicy("orchid", "p", v1alpha1.CachePolicySpec{
				Eviction: v1alpha1.EvictionPolicyLFU, EvictionTTL: &metav1.Duration{Duration: 10 * time.Minute},
				MinimumMatchedTokens: new(int32(64)), RoutingFloorScore: new("0.1"), AffinityRouting: new(v1alpha1.AffinityRoutingEnabled),
			})),
			tenants: tenants(newTenant("orchid", "t", "orchid", 250000)),
			want: `{"version":7,"policies":[{"namespace":"orchid","evictionTTL":600000000000,"minimumMatchedTokens":64,` +
				`"routingFloorScore":0.1,"eviction":"lfu","affinityRouting":true}],` +
				`"tenants":[{"tenantID":"orchid","maxIndexEntries":250000,"isolationMode":"Fairness"}]}`,
		},
		"all off": {
			policies: policies(newPolicy("orchid", "p", v1alpha1.CachePolicySpec{
				MinimumPrefixTokens: new(int32(0)), MinimumMatchedTokens: new(int32(0)), LookupTimeoutMs: new(int32(0)),
				RoutingFloorScore: new("0"), AffinityRouting: new(v1alpha1.AffinityRoutingDisabled),
				Strategy: &v1alpha1.LookupStrategy{EnableChainMatching: new(false), RequireChain: new(false), EnableTenantHot: new(false)},
			})),
			want: `{"version":7,"policies":[{"namespace":"orchid","routingFloorScore":0,"eviction":"lru",` +
				`"strategy":{"enableChainMatching":false,"requireChain":false,"enableTenantHot":false},"affinityRouting":false}]}`,
		},
		"all on": {
			policies: policies(newPolicy("orchid", "p", v1alpha1.CachePolicySpec{
				Eviction:            v1alpha1.EvictionPolicyLRU,
				MinimumPrefixTokens: new(int32(16)), MinimumMatchedTokens: new(int32(32)), LookupTimeoutMs: new(int32(50)),
				Strategy: &v1alpha1.LookupStrategy{RequireChain: new(true)},
			})),
			want: `{"version":7,"policies":[{"namespace":"orchid","minimumPrefixTokens":16,"minimumMatchedTokens":32,"lookupTimeoutMs":50,` +
				`"eviction":"lru","strategy":{"requireChain":true}}]}`,
		},
		"an empty strategy": {
			policies: policies(newPolicy("orchid", "p", v1alpha1.CachePolicySpec{Strategy: &v1alpha1.LookupStrategy{}})),
			want:     `{"version":7,"policies":[{"namespace":"orchid","eviction":"lru","strategy":{}}]}`,
		},
		"two in a namespace": {
			policies: policies(
				newPolicy("team-a", "p2", v1alpha1.CachePolicySpec{EvictionTTL: &metav1.Duration{Duration: time.Hour}}),
				newPolicy("team-b", "p0", unset),
				newPolicy("team-a", "p1", v1alpha1.CachePolicySpec{
					EvictionTTL: &metav1.Duration{Duration: 15 * time.Minute}, Eviction: v1alpha1.EvictionPolicyLFU,
					RoutingFloorScore: new("0"), AffinityRouting: new(v1alpha1.AffinityRoutingDisabled),
				}),
			),
			want: `{"version":7,"policies":[{"namespace":"team-a","evictionTTL":900000000000,"routingFloorScore":0,"eviction":"lfu",` +
				`"affinityRouting":false},{"namespace":"team-b","eviction":"lru"}]}`,
		},
		"a quota of nothing": {tenants: tenants(bare), want: `{"version":7,"policies":[],"tenants":[{"tenantID":"T","maxIndexEntries":0}]}`},
		"no quota":           {tenants: tenants(newTenant("a", "x", "T", -1), empty), want: `{"version":7,"policies":[]}`},
		"the first with a quota": {
			tenants: tenants(newTenant("b", "a", "T", 1), newTenant("a", "z", "T", 2), newTenant("a", "y", "T", 3), empty, newTenant("a", "w", "U", 4)),
			want: `{"version":7,"policies":[],"tenants":[{"tenantID":"U","maxIndexEntries":4,"isolationMode":"Fairness"},` +
				`{"tenantID":"T","maxIndexEntries":3,"isolationMode":"Fairness"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				rand.Shuffle(len(tt.policies), func(i, j int) { tt.policies[i], tt.policies[j] = tt.policies[j], tt.policies[i] })
				rand.Shuffle(len(tt.tenants), func(i, j int) { tt.tenants[i], tt.tenants[j] = tt.tenants[j], tt.tenants[i] })
				got, err := json.Marshal(desiredState(tt.policies, tt.tenants))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, string(got)); diff != "" {
					t.Fatalf("state (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestFloorScore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float32{
		"0": 0, "0.1": 0.1, "0.000001": 0.000001, "1": 1, "99999999.999999": 100000000, "16777217": 16777216,
		"": 0.1, "x": 0.1, "-1": 0.1, "-0": 0.1, "NaN": 0.1, "Inf": 0.1, "-Inf": 0.1, "1e39": 0.1, "0.5 ": 0.1, "0,5": 0.1,
	} {
		if got := floorScore(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
