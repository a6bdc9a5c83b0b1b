// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

var (
	start = time.Date(2027, 3, 2, 9, 15, 30, 250_000_000, time.UTC)
	atlas = map[string]string{"serve": "atlas"}
)

// newBackend has no selector when it gets no labels.
func newBackend(namespace, name string, labels map[string]string) v1alpha1.CacheBackend {
	backend := v1alpha1.CacheBackend{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if labels != nil {
		backend.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: labels}
	}
	return backend
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	wide := map[string]string{"serve": "atlas", "size": "70b"}
	backends := []v1alpha1.CacheBackend{ // Not in the order of their names.
		newBackend("ns1", "zeta", atlas),
		newBackend("ns1", "alpha", map[string]string{"serve": "other"}),
		newBackend("ns1", "beta", wide),
		newBackend("ns1", "a-bare", nil),
		newBackend("ns1", "a-blank", map[string]string{}),
		newBackend("ns2", "aaa", atlas),
	}
	for name, tt := range map[string]struct {
		pod  enginePod
		want string
	}{
		"annotated":                     {enginePod{injectedBy: "ns1/alpha"}, "alpha"},
		"annotated against a selector":  {enginePod{injectedBy: "ns1/alpha", labels: atlas}, "alpha"},
		"annotated without a selector":  {enginePod{injectedBy: "ns1/a-bare"}, "a-bare"},
		"annotated, backend gone":       {enginePod{injectedBy: "ns1/gone", labels: atlas}, ""},
		"annotated, nameless":           {enginePod{injectedBy: "ns1/", labels: atlas}, ""},
		"annotated, two slashes":        {enginePod{injectedBy: "ns1/zeta/x", labels: atlas}, ""},
		"annotated in another case":     {enginePod{injectedBy: "ns1/Alpha", labels: atlas}, ""},
		"another namespace":             {enginePod{injectedBy: "ns2/aaa", labels: atlas}, "zeta"},
		"another namespace, no labels":  {enginePod{injectedBy: "ns2/aaa"}, ""},
		"no slash":                      {enginePod{injectedBy: "alpha", labels: atlas}, "zeta"},
		"no namespace":                  {enginePod{injectedBy: "/alpha", labels: atlas}, "zeta"},
		"selected by one":               {enginePod{labels: atlas}, "zeta"},
		"selected by two":               {enginePod{labels: map[string]string{"serve": "atlas", "size": "70b", "more": "x"}}, "beta"},
		"selected by none":              {enginePod{labels: map[string]string{"serve": "else"}}, ""},
		"no labels":                     {enginePod{}, ""},
		"another value of a second key": {enginePod{labels: map[string]string{"serve": "atlas", "size": "8b"}}, "zeta"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shares := attribute([]cacheserver.Replica{{Tenant: "ns1", ID: "p", PrefixCount: 1}}, backends,
				podsByNamespace{"ns1": {"p": tt.pod}})
			want := map[types.NamespacedName]*share{}
			if tt.want != "" {
				want[key("ns1", tt.want)] = &share{prefixCount: 1}
			}
			if diff := cmp.Diff(want, shares, cmp.AllowUnexported(share{})); diff != "" {
				t.Errorf("shares (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttribute(t *testing.T) {
	t.Parallel()
	backends := []v1alpha1.CacheBackend{newBackend("ns1", "alpha", atlas), newBackend("ns1", "beta", atlas), newBackend("ns2", "alpha", atlas)}
	later := start.Add(90 * time.Second)
	replicas := []cacheserver.Replica{
		{Tenant: "ns1", ID: "p0", PrefixCount: 2, LastEventAt: later, T2HitTokens: 1, T2QueryTokens: 3},
		{Tenant: "ns1", ID: "p1", PrefixCount: 3, LastEventAt: start, T2HitTokens: 2, T2QueryTokens: 5},
		{Tenant: "ns2", ID: "p0", PrefixCount: 7},
		{Tenant: "ns1", ID: "gone", PrefixCount: 11},
		{Tenant: "", ID: "p0", PrefixCount: 13},
		{Tenant: "ns1", ID: "", PrefixCount: 17},
		{Tenant: "ns3", ID: "p0", PrefixCount: 19},
		{Tenant: "inferencecache.io/probe", ID: "__probe-1", PrefixCount: 23},
	}
	pods := podsByNamespace{
		"ns1": {"p0": {labels: atlas}, "p1": {labels: atlas}},
		"ns2": {"p0": {labels: atlas}},
		"ns3": {"p0": {labels: atlas}},
	}
	want := map[types.NamespacedName]*share{
		key("ns1", "alpha"): {prefixCount: 5, lastEventAt: later.Truncate(time.Second), t2Hits: 3, t2Queries: 8},
		key("ns2", "alpha"): {prefixCount: 7},
	}
	if diff := cmp.Diff(want, attribute(replicas, backends, pods), cmp.AllowUnexported(share{})); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}

	pods["ns1"]["p0"] = enginePod{labels: atlas, injectedBy: "ns1/beta"}
	want[key("ns1", "alpha")] = &share{prefixCount: 3, lastEventAt: start.Truncate(time.Second), t2Hits: 2, t2Queries: 5}
	want[key("ns1", "beta")] = &share{prefixCount: 2, lastEventAt: later.Truncate(time.Second), t2Hits: 1, t2Queries: 3}
	if diff := cmp.Diff(want, attribute(replicas, backends, pods), cmp.AllowUnexported(share{})); diff != "" {
		t.Errorf("shares of an annotated pod (-want +got):\n%s", diff)
	}
}
