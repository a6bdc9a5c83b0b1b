// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fixture "inferencecache.io/inferencecache/test/cacheserver"
)

func TestPush(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		state PolicyState
		want  string
	}{
		"nothing": {PolicyState{Version: PolicyVersion}, `{"version":7,"policies":[]}`},
		"one of each": {
			PolicyState{
				Version: PolicyVersion,
				Policies: []Policy{{
					Namespace: "orchid", EvictionTTL: 600_000_000_000, MinimumMatchedTokens: 64, RoutingFloorScore: new(float32(0.1)),
					Eviction: "lfu", AffinityRouting: new(true),
				}},
				Tenants: []TenantQuota{{TenantID: "orchid", MaxIndexEntries: 250_000, IsolationMode: "Fairness"}},
			},
			`{"version":7,"policies":[{"namespace":"orchid","evictionTTL":600000000000,"minimumMatchedTokens":64,"routingFloorScore":0.1,` +
				`"eviction":"lfu","affinityRouting":true}],"tenants":[{"tenantID":"orchid","maxIndexEntries":250000,"isolationMode":"Fairness"}]}`,
		},
		"everything off": {
			PolicyState{
				Version: PolicyVersion,
				Policies: []Policy{{
					Namespace: "maple", RoutingFloorScore: new(float32(0)), Eviction: "lru", AffinityRouting: new(false),
					Strategy: &PolicyStrategy{EnableChainMatching: new(false), RequireChain: new(false), EnableTenantHot: new(false)},
				}},
				Tenants: []TenantQuota{{TenantID: "maple"}},
			},
			`{"version":7,"policies":[{"namespace":"maple","routingFloorScore":0,"eviction":"lru",` +
				`"strategy":{"enableChainMatching":false,"requireChain":false,"enableTenantHot":false},"affinityRouting":false}],` +
				`"tenants":[{"tenantID":"maple","maxIndexEntries":0}]}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, fixture.Options{})
			client := newClient(t, Target{URL: server.URL(fixture.PolicyPath)})
			for range 2 {
				if err := client.Push(t.Context(), &test.state); err != nil {
					t.Fatal(err)
				}
			}
			// The server has refused keys that it does not know.
			for _, got := range server.Policies() {
				if diff := cmp.Diff(test.want, string(got.Raw)); diff != "" {
					t.Error(diff)
				}
			}
			if got := server.LastHeader(fixture.PolicyPath).Get("Content-Type"); got != "application/json" {
				t.Errorf("got content type %q", got)
			}
		})
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	client := newClient(t, Target{URL: server.URL(fixture.PolicyPath)})
	err := client.Push(t.Context(), &PolicyState{Version: PolicyVersion + 1})
	if err == nil || !strings.Contains(err.Error(), "400 Bad Request: version 8 is not supported") {
		t.Errorf("got error %v", err)
	}
	nan := &PolicyState{Version: PolicyVersion, Policies: []Policy{{RoutingFloorScore: new(float32(math.NaN()))}}}
	if err := client.Push(t.Context(), nan); err == nil || server.Requests(fixture.PolicyPath) != 1 {
		t.Errorf("got error %v", err)
	}
	server.SetBehavior(fixture.PolicyPath, fixture.Answer(http.StatusNoContent, ""))
	if err := client.Push(t.Context(), &PolicyState{}); err != nil {
		t.Errorf("got error %v for status 204", err)
	}
}
