// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// defaultFloorScore is sent for a score that is not a number that a score can be.
const defaultFloorScore = 0.1

// desiredState is what the cache server is to follow. It depends on nothing but the objects,
// and not on their order.
func desiredState(policies []v1alpha1.CachePolicy, tenants []v1alpha1.CacheTenant) *cacheserver.PolicyState {
	state := &cacheserver.PolicyState{Version: cacheserver.PolicyVersion, Policies: []cacheserver.Policy{}}
	for _, policy := range effectivePolicies(policies) {
		state.Policies = append(state.Policies, wirePolicy(policy))
	}
	for _, tenant := range QuotaOwners(tenants) {
		state.Tenants = append(state.Tenants, cacheserver.TenantQuota{
			TenantID:        tenant.Spec.TenantID,
			MaxIndexEntries: *tenant.Spec.Quota.MaxIndexEntries,
			IsolationMode:   string(tenant.Spec.IsolationMode),
		})
	}
	return state
}

// effectivePolicies returns the policy of each namespace, in the order of the namespaces. Two
// in one namespace are refused, but may have been created at the same time: the first by
// name counts.
func effectivePolicies(policies []v1alpha1.CachePolicy) []*v1alpha1.CachePolicy {
	effective := pointers(policies)
	slices.SortFunc(effective, byName[*v1alpha1.CachePolicy])
	return slices.CompactFunc(effective, func(a, b *v1alpha1.CachePolicy) bool { return a.Namespace == b.Namespace })
}

// QuotaOwners returns, in the order of namespaces and names, the objects whose quotas count.
// Several objects may speak of one tenant: the first that sets a quota counts.
func QuotaOwners(tenants []v1alpha1.CacheTenant) []*v1alpha1.CacheTenant {
	owners := pointers(tenants)
	slices.SortFunc(owners, byName[*v1alpha1.CacheTenant])
	taken := map[string]bool{}
	return slices.DeleteFunc(owners, func(tenant *v1alpha1.CacheTenant) bool {
		if quota := tenant.Spec.Quota; quota == nil || quota.MaxIndexEntries == nil || taken[tenant.Spec.TenantID] {
			return true
		}
		taken[tenant.Spec.TenantID] = true
		return false
	})
}

// byName orders objects by namespace and name.
func byName[T metav1.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

func pointers[T any](items []T) []*T {
	result := make([]*T, 0, len(items))
	for i := range items {
		result = append(result, &items[i])
	}
	return result
}

// wirePolicy leaves out what is not set, so that the server's defaults hold.
func wirePolicy(policy *v1alpha1.CachePolicy) cacheserver.Policy {
	spec := &policy.Spec
	wire := cacheserver.Policy{
		Namespace:            policy.Namespace,
		MinimumPrefixTokens:  valueOf(spec.MinimumPrefixTokens),
		MinimumMatchedTokens: valueOf(spec.MinimumMatchedTokens),
		LookupTimeoutMs:      valueOf(spec.LookupTimeoutMs),
		Eviction:             strings.ToLower(string(cmp.Or(spec.Eviction, v1alpha1.EvictionPolicyLRU))),
	}
	if spec.EvictionTTL != nil {
		wire.EvictionTTL = spec.EvictionTTL.Nanoseconds()
	}
	if spec.RoutingFloorScore != nil {
		wire.RoutingFloorScore = new(floorScore(*spec.RoutingFloorScore))
	}
	if strategy := spec.Strategy; strategy != nil {
		wire.Strategy = &cacheserver.PolicyStrategy{
			EnableChainMatching: strategy.EnableChainMatching,
			RequireChain:        strategy.RequireChain,
			EnableTenantHot:     strategy.EnableTenantHot,
		}
	}
	if spec.AffinityRouting != nil {
		wire.AffinityRouting = new(*spec.AffinityRouting == v1alpha1.AffinityRoutingEnabled)
	}
	return wire
}

// valueOf takes a number that is not set for 0, which means the same to the server.
func valueOf(number *int32) int32 {
	if number == nil {
		return 0
	}
	return *number
}

// floorScore reads a score in single precision, as the server holds it.
func floorScore(text string) float32 {
	score, err := strconv.ParseFloat(text, 32)
	if err != nil || math.IsNaN(score) || math.IsInf(score, 0) || math.Signbit(score) {
		return defaultFloorScore
	}
	return float32(score)
}
