// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"
)

func TestAutoscaling(t *testing.T) {
	t.Parallel()
	const (
		autoscaling = " spec.autoscaling"
		minReplicas = " spec.autoscaling.minReplicas"
		maxReplicas = " spec.autoscaling.maxReplicas"
	)
	tier := remote(lmcache, managed)
	runRuleTests(t, []ruleTest{
		{name: "equal bounds", mutate: all(tier, scale(3, 3))},
		{name: "floor above ceiling", mutate: all(tier, scale(5, 3)), want: []string{invalid + autoscaling}, detail: "lower it or raise maxReplicas"},
		{name: "no ceiling", mutate: all(tier, scale(2, 0)), want: []string{invalid + maxReplicas}},
		{name: "negative ceiling", mutate: all(tier, scale(2, -1)), want: []string{invalid + maxReplicas}},
		{name: "negative floor", mutate: all(tier, scale(-5, 3))},
		{name: "negative bounds", mutate: all(tier, scale(-1, -2)), want: []string{invalid + maxReplicas}},
		{name: "to zero without a floor", mutate: all(tier, replicas(0), scale(0, 3)), want: []string{required + minReplicas},
			detail: "set minReplicas, or remove spec.autoscaling to scale to zero"},
		{name: "to zero with a floor", mutate: all(tier, replicas(0), scale(1, 3))},
		{name: "to zero without autoscaling", mutate: all(tier, replicas(0))},
		{name: "no floor", mutate: all(tier, replicas(1), scale(0, 3))},
		{name: "host-only", mutate: scale(1, 2), want: []string{forbidden + autoscaling}},
		{name: "host-only with bad bounds", mutate: scale(3, 2), want: []string{forbidden + autoscaling, invalid + autoscaling}},
	})
}

func TestSingleton(t *testing.T) {
	t.Parallel()
	both := []string{invalid + " spec.replicas", invalid + " spec.autoscaling"}
	tooMuch := all(replicas(2), scale(1, 2))
	redisTier := all(sglang, remote(redis, managed))
	runRuleTests(t, []ruleTest{
		{name: "Mooncake", mutate: all(remote(mooncake, managed), tooMuch), want: both, detail: "Mooncake"},
		{name: "Mooncake with one replica", mutate: all(remote(mooncake, managed), replicas(1))},
		{name: "Mooncake with none", mutate: all(remote(mooncake, managed), replicas(0))},
		{name: "external Mooncake", mutate: all(remote(mooncake, external), tooMuch), want: both},
		{name: "Mooncake with an unknown runtime", mutate: all(runtimeAndType("vllm", "LMCache"), remote(mooncake, managed), tooMuch), want: both},
		{name: "Mooncake with an unknown type", mutate: all(unknownType, remote(mooncake, managed), tooMuch), want: both},
		{name: "Mooncake with an unknown ownership", mutate: all(remote(mooncake, "Shared"), tooMuch), want: both},
		{name: "Mooncake with events only", mutate: all(remote(mooncake, managed), mode("EventsOnly"), replicas(2)),
			want: []string{invalid + " spec.replicas", forbidden + " spec.remoteStorage"}},
		{name: "Redis for SGLang", mutate: all(redisTier, tooMuch), want: both, detail: "Redis"},
		{name: "Redis with one replica", mutate: redisTier},
		{name: "external Redis", mutate: all(sglang, remote(redis, external), tooMuch)},
		{name: "Redis with events only", mutate: all(redisTier, mode("EventsOnly"), replicas(2)),
			want: []string{forbidden + " spec.remoteStorage"}},
		{name: "Redis with an unknown mode", mutate: all(redisTier, mode("Routing"), tooMuch)},
		{name: "Redis with an unknown runtime", mutate: all(redisTier, runtimeAndType("sglang", "LMCache"), tooMuch)},
		{name: "Redis with an unknown type", mutate: all(redisTier, unknownType, tooMuch)},
		{name: "Redis with an unknown ownership", mutate: all(sglang, remote(redis, "Shared"), tooMuch)},
		{name: "LMCacheServer", mutate: all(remote(lmcache, managed), tooMuch)},
		{name: "unknown provider", mutate: all(remote("Valkey", managed), tooMuch)},
	})
}
