// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestCachePolicy(t *testing.T) {
	t.Parallel()
	ttl := func(d time.Duration) inferencecache.CachePolicySpec {
		return inferencecache.CachePolicySpec{EvictionTTL: &metav1.Duration{Duration: d}}
	}
	chain := func(enable, require *bool) inferencecache.CachePolicySpec {
		return inferencecache.CachePolicySpec{Strategy: &inferencecache.LookupStrategy{EnableChainMatching: enable, RequireChain: require}}
	}
	yes, no := new(true), new(false)
	wantTTL, wantChain := []string{invalid + " spec.evictionTTL"}, []string{invalid + " spec.strategy.requireChain"}
	tests := []struct {
		name string
		spec inferencecache.CachePolicySpec
		want []string
	}{
		{name: "empty"},
		{name: "ttl", spec: ttl(time.Nanosecond)},
		{name: "ttl of 0", spec: ttl(0), want: wantTTL},
		{name: "negative ttl", spec: ttl(-time.Second), want: wantTTL},
		{name: "chain required", spec: chain(yes, yes)},
		{name: "chain required without matching", spec: chain(no, yes), want: wantChain},
		{name: "chain required with the default", spec: chain(nil, yes)},
		{name: "no matching", spec: chain(no, no)},
		{name: "no matching and nothing said", spec: chain(no, nil)},
		{name: "empty strategy", spec: chain(nil, nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkErrors(t, tt.want, ValidateCachePolicy(&inferencecache.CachePolicy{Spec: tt.spec}))
		})
	}
}

func TestFloorScore(t *testing.T) {
	t.Parallel()
	validate := func(text string) []string {
		spec := inferencecache.CachePolicySpec{RoutingFloorScore: &text}
		var got []string
		for _, err := range ValidateCachePolicy(&inferencecache.CachePolicy{Spec: spec}) {
			got = append(got, string(err.Type)+" "+err.Field)
		}
		return got
	}
	for _, text := range []string{"0", "0.0", "0.1", "1", "1.5", "10", "12345678", "12345678.123456", "0.000001"} {
		if got := validate(text); got != nil {
			t.Errorf("%q is refused: %v", text, got)
		}
	}
	for _, text := range []string{".5", "-1", "1.", "01", "123456789", "0.1234567", "", " 1", "1\n", "+1", "1e3", "1,5", "NaN", "１"} {
		got := validate(text)
		if len(got) != 1 || got[0] != invalid+" spec.routingFloorScore" {
			t.Errorf("%q gives %v", text, got)
		}
	}
}

func FuzzFloorScore(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		if !floorScorePattern.MatchString(text) {
			return
		}
		score, err := strconv.ParseFloat(text, 32)
		if err != nil || score < 0 || score >= 1e9 {
			t.Errorf("%q is valid and parses to %v, %v", text, score, err)
		}
		if len(text) > len("12345678.123456") || strings.Trim(text, "0123456789.") != "" {
			t.Errorf("%q is valid", text)
		}
	})
}
