// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math"
	"strconv"
	"testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func capacity(sizeGB int32, ratio string) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.HiCache = &inferencecache.HiCacheSpec{Ratio: ratio}
		if sizeGB != 0 {
			cb.Spec.HiCache.SizeGB = &sizeGB
		}
	}
}

func TestHiCache(t *testing.T) {
	t.Parallel()
	const block = " spec.hiCache"
	selector := required + " spec.engineSelector.matchLabels"
	noBlock := func(cb *inferencecache.CacheBackend) { cb.Spec.HiCache = nil }
	noSelector := func(cb *inferencecache.CacheBackend) { cb.Spec.EngineSelector = nil }
	emptySelector := func(cb *inferencecache.CacheBackend) { cb.Spec.EngineSelector.MatchLabels = nil }
	failClosed := func(cb *inferencecache.CacheBackend) { cb.Spec.Integration.FailOpen = new(false) }
	runRuleTests(t, []ruleTest{
		{name: "block with LMCache", mutate: all(sglang, capacity(1, "bad")), want: []string{forbidden + block}},
		{name: "no block", mutate: all(hiCache, noBlock), want: []string{required + block}, detail: "sizeGB or ratio"},
		{name: "no capacity", mutate: all(hiCache, capacity(0, "")), want: []string{required + block}},
		{name: "both capacities", mutate: all(hiCache, capacity(48, "2.0")), want: []string{invalid + block}, detail: "remove one"},
		{name: "size below its bound counts as present", mutate: all(hiCache, capacity(-1, "2.0")), want: []string{invalid + block}},
		{name: "ratio", mutate: all(hiCache, capacity(0, "1.75"))},
		{name: "both capacities and a bad ratio", mutate: all(hiCache, capacity(48, "two")),
			want: []string{invalid + block, invalid + block + ".ratio"}},
		{name: "no selector", mutate: all(hiCache, noSelector), want: []string{selector}},
		{name: "empty selector", mutate: all(hiCache, emptySelector), want: []string{selector}},
		{name: "autoscaling", mutate: all(hiCache, scale(1, 2)), want: []string{forbidden + " spec.autoscaling"}},
		{name: "role", mutate: all(hiCache, role("ReadOnly")), want: []string{notSupported + " spec.integration.role"}, detail: "ReadWrite"},
		{name: "fail closed", mutate: all(hiCache, failClosed), want: []string{notSupported + " spec.integration.failOpen"}},
		{name: "fail closed with LMCache", mutate: failClosed},
		{name: "tier and autoscaling", mutate: all(hiCache, remote(lmcache, managed), scale(1, 2)),
			want: []string{invalid + " spec.remoteStorage.provider", forbidden + " spec.autoscaling"}},
		{name: "unknown type", mutate: all(hiCache, unknownType, noSelector, failClosed, role("ReadOnly"), capacity(48, "two"))},
		{name: "unknown runtime", mutate: all(hiCache, runtimeAndType("sglang", "SGLangHiCache"), noSelector, noBlock),
			want: []string{selector, required + block}},
		{name: "selector is optional with LMCache", mutate: noSelector},
	})
}

func TestRatio(t *testing.T) {
	t.Parallel()
	var tests []ruleTest
	for _, ratio := range []string{"2", "1.75", "+2", ".5", "5.", "1e3", "1E-3", "0.0001", "007", ""} {
		mutate := all(hiCache, capacity(0, ratio))
		if ratio == "" {
			mutate = hiCache
		}
		tests = append(tests, ruleTest{name: "ok " + ratio, mutate: mutate})
	}
	for _, ratio := range []string{
		"0", "-1", "-0", "0.0", "1e-400", "1e400", "NaN", "Infinity", "Inf", "+Inf", " 2", "2 ", "1,5", "two",
		"0x10", "1_000", "1e", ".", "+", "2\n", "２",
	} {
		tests = append(tests, ruleTest{name: "bad " + ratio, mutate: all(hiCache, capacity(0, ratio)),
			want: []string{invalid + " spec.hiCache.ratio"}})
	}
	runRuleTests(t, tests)
}

func FuzzRatio(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		if !validRatio(text) {
			return
		}
		ratio, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ratio > 0) || math.IsInf(ratio, 0) {
			t.Errorf("%q is valid and parses to %v, %v", text, ratio, err)
		}
		if validRatio("-"+text) || validRatio(" "+text) || validRatio(text+"x") {
			t.Errorf("%q is valid with something around it", text)
		}
	})
}
