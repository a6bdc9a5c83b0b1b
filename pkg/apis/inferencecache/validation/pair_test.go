// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestValidObjects(t *testing.T) {
	t.Parallel()
	runRuleTests(t, []ruleTest{
		{name: "host-only"},
		{name: "HiCache", mutate: hiCache},
		{name: "managed LMCacheServer", mutate: all(remote(lmcache, managed), replicas(3), scale(2, 4))},
		{name: "replicas outside the band", mutate: all(remote(lmcache, managed), replicas(20), scale(2, 4))},
		{name: "autoscaling an external LMCacheServer", mutate: all(remote(lmcache, external), scale(1, 4))},
		{name: "replicas without a tier", mutate: replicas(5)},
		{name: "nothing but a runtime, as if defaulting had not run", mutate: func(cb *inferencecache.CacheBackend) {
			cb.Spec = inferencecache.CacheBackendSpec{Runtime: inferencecache.RuntimeVLLM, Type: inferencecache.CacheTypeLMCache}
		}},
	})
}

func TestPair(t *testing.T) {
	t.Parallel()
	runRuleTests(t, []ruleTest{
		{name: "SGLang with LMCache", mutate: sglang},
		{name: "VLLM with HiCache", mutate: all(hiCache, runtimeAndType("VLLM", "SGLangHiCache")),
			want: []string{invalid + " spec.runtime"}, detail: "VLLM/LMCache, SGLang/LMCache, SGLang/SGLangHiCache"},
		{name: "unknown runtime", mutate: runtimeAndType("vllm", "LMCache")},
		{name: "no runtime", mutate: runtimeAndType("", "LMCache")},
		{name: "unknown runtime with HiCache", mutate: all(hiCache, runtimeAndType("vllm", "SGLangHiCache"))},
		{name: "unknown type", mutate: unknownType},
	})
}

func TestBinding(t *testing.T) {
	t.Parallel()
	const provider = " spec.remoteStorage.provider"
	tests := []ruleTest{
		{name: "HiCache with Redis", mutate: all(hiCache, remote(redis, managed)), want: []string{invalid + provider}, detail: "remove remoteStorage"},
		{name: "HiCache with LMCacheServer", mutate: all(hiCache, remote(lmcache, external)), want: []string{invalid + provider}},
		{name: "HiCache with Mooncake", mutate: all(hiCache, remote(mooncake, managed)), want: []string{invalid + provider}},
		{name: "unsupported pair", mutate: all(hiCache, runtimeAndType("VLLM", "SGLangHiCache"), remote(redis, managed)),
			want: []string{invalid + " spec.runtime"}},
		{name: "unknown runtime", mutate: all(runtimeAndType("vllm", "LMCache"), remote(redis, managed))},
		{name: "unknown type", mutate: all(unknownType, remote(redis, managed))},
		{name: "unknown provider", mutate: remote("Valkey", managed)},
		{name: "no provider", mutate: remote("", managed)},
		{name: "unknown ownership", mutate: remote(redis, "Shared"), want: []string{invalid + provider}, detail: "use LMCacheServer or Mooncake"},
	}
	for _, ownership := range []inferencecache.StorageOwnership{managed, external} {
		tests = append(tests, []ruleTest{
			{name: "VLLM with Redis " + string(ownership), mutate: remote(redis, ownership), want: []string{invalid + provider}, detail: "use LMCacheServer or Mooncake"},
			{name: "VLLM with LMCacheServer " + string(ownership), mutate: remote(lmcache, ownership)},
			{name: "VLLM with Mooncake " + string(ownership), mutate: remote(mooncake, ownership)},
			{name: "SGLang with Redis " + string(ownership), mutate: all(sglang, remote(redis, ownership))},
			{name: "SGLang with LMCacheServer " + string(ownership), mutate: all(sglang, remote(lmcache, ownership)), want: []string{invalid + provider}, detail: "use Redis"},
			{name: "SGLang with Mooncake " + string(ownership), mutate: all(sglang, remote(mooncake, ownership)), want: []string{invalid + provider}},
		}...)
	}
	runRuleTests(t, tests)
}

func TestLMCacheBlock(t *testing.T) {
	t.Parallel()
	block := func(cb *inferencecache.CacheBackend) {
		cb.Spec.LMCache = &inferencecache.LMCacheSpec{}
	}
	capacity := func(text string) mutation {
		return func(cb *inferencecache.CacheBackend) {
			cb.Spec.LMCache = &inferencecache.LMCacheSpec{
				HostMemory: &inferencecache.HostMemorySpec{Capacity: new(resource.MustParse(text))},
			}
		}
	}
	want := []string{invalid + " spec.lmCache.hostMemory.capacity"}
	runRuleTests(t, []ruleTest{
		{name: "with LMCache", mutate: block},
		{name: "with HiCache", mutate: all(hiCache, block), want: []string{forbidden + " spec.lmCache"}},
		{name: "with an unknown type", mutate: all(unknownType, block)},
		{name: "with events only", mutate: all(block, mode("EventsOnly"))},
		{name: "capacity", mutate: capacity("32Gi")},
		{name: "small capacity", mutate: capacity("1m")},
		{name: "capacity of 0", mutate: capacity("0"), want: want, detail: "more than 0"},
		{name: "negative capacity", mutate: capacity("-1Gi"), want: want},
		{name: "capacity out of range", mutate: capacity("1e2000000000"), want: want, detail: "less than 1e19"},
		{name: "empty host memory", mutate: func(cb *inferencecache.CacheBackend) {
			cb.Spec.LMCache = &inferencecache.LMCacheSpec{HostMemory: &inferencecache.HostMemorySpec{}}
		}},
		{name: "capacity with an unknown type", mutate: all(unknownType, capacity("0")), want: want},
	})
}

func TestRole(t *testing.T) {
	t.Parallel()
	want := []string{invalid + " spec.integration.role"}
	runRuleTests(t, []ruleTest{
		{name: "SGLang ReadOnly", mutate: all(sglang, role("ReadOnly")), want: want, detail: "use ReadWrite"},
		{name: "SGLang WriteOnly", mutate: all(sglang, role("WriteOnly")), want: want},
		{name: "SGLang ReadWrite", mutate: sglang},
		{name: "SGLang events only", mutate: all(sglang, mode("EventsOnly"), role("ReadOnly")), want: want},
		{name: "SGLang unknown role", mutate: all(sglang, role("Both"))},
		{name: "VLLM ReadOnly", mutate: role("ReadOnly")},
		{name: "unknown runtime", mutate: all(runtimeAndType("sglang", "LMCache"), role("ReadOnly"))},
		{name: "unknown type", mutate: all(sglang, unknownType, role("ReadOnly"))},
	})
}

func TestKernelCheck(t *testing.T) {
	t.Parallel()
	annotate := func(value string) mutation {
		return func(cb *inferencecache.CacheBackend) {
			cb.Annotations = map[string]string{v1alpha1.AnnotationKernelCheck: value}
		}
	}
	var tests []ruleTest
	for _, value := range []string{"", "auto", "report-only", "strict", "off"} {
		tests = append(tests, ruleTest{name: "value " + value, mutate: annotate(value)})
	}
	for _, value := range []string{"strcit", "Strict", " strict", "strict ", "true"} {
		tests = append(tests, ruleTest{name: "value " + value, mutate: annotate(value), detail: "auto, report-only, strict, off",
			want: []string{invalid + " metadata.annotations[inferencecache.io/lmcache-kernel-check]"}})
	}
	tests = append(tests, ruleTest{name: "any runtime", mutate: all(hiCache, annotate("on")),
		want: []string{invalid + " metadata.annotations[inferencecache.io/lmcache-kernel-check]"}})
	runRuleTests(t, tests)
}

func TestEngineHostNetwork(t *testing.T) {
	t.Parallel()
	want := []string{invalid + " spec.integration.engineHostNetwork"}
	runRuleTests(t, []ruleTest{
		{name: "host-only", mutate: hostNetwork, want: want, detail: "Mooncake"},
		{name: "LMCacheServer", mutate: all(hostNetwork, remote(lmcache, managed)), want: want},
		{name: "Mooncake", mutate: all(hostNetwork, remote(mooncake, managed))},
		{name: "external Mooncake", mutate: all(hostNetwork, remote(mooncake, external))},
		{name: "unknown provider", mutate: all(hostNetwork, remote("Valkey", managed))},
		{name: "no provider", mutate: all(hostNetwork, remote("", managed))},
	})
}

func TestEventsOnly(t *testing.T) {
	t.Parallel()
	const autoscaling, tier = forbidden + " spec.autoscaling", forbidden + " spec.remoteStorage"
	runRuleTests(t, []ruleTest{
		{name: "alone", mutate: mode("EventsOnly")},
		{name: "HiCache", mutate: all(hiCache, mode("EventsOnly")),
			want: []string{forbidden + " spec.integration.mode", notSupported + " spec.integration.mode"}},
		{name: "autoscaling", mutate: all(mode("EventsOnly"), scale(1, 2)), want: []string{autoscaling}},
		{name: "managed tier", mutate: all(mode("EventsOnly"), remote(lmcache, managed)), want: []string{tier}},
		{name: "external tier", mutate: all(mode("EventsOnly"), remote(lmcache, external)), want: []string{tier}},
		{name: "tier with its own faults", mutate: all(mode("EventsOnly"), remote(redis, external), endpoint("shard1")),
			want: []string{tier, invalid + " spec.remoteStorage.provider", invalid + " spec.remoteStorage.endpoint"}},
		{name: "unknown type", mutate: all(unknownType, mode("EventsOnly"), remote(lmcache, managed), scale(1, 2)),
			want: []string{tier, autoscaling}},
		{name: "unknown mode", mutate: all(hiCache, mode("Routing"))},
	})
}
