// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	named := func(name string) mutation {
		return func(cb *inferencecache.CacheBackend) { cb.Name = name }
	}
	lmcacheTier, mooncakeTier := remote(lmcache, managed), remote(mooncake, managed)
	const flag = "spec.integration.engineHostNetwork: "
	tests := []struct {
		name   string
		mutate mutation
		// update and create are what the warnings begin with or contain.
		update, create []string
	}{
		{name: "host-only", mutate: named("vllm")},
		{name: "Mooncake", mutate: mooncakeTier, update: []string{flag}, create: []string{flag}},
		{name: "external Mooncake", mutate: all(remote(mooncake, external), named("vllm")), update: []string{flag}, create: []string{flag}},
		{name: "Mooncake with the flag", mutate: all(mooncakeTier, hostNetwork)},
		{name: "Mooncake without an integration", mutate: all(mooncakeTier, func(cb *inferencecache.CacheBackend) { cb.Spec.Integration = nil }),
			update: []string{flag}, create: []string{flag}},
		{name: "LMCacheServer", mutate: lmcacheTier},
		{name: "name of an engine", mutate: all(lmcacheTier, named("vllm")), create: []string{"VLLM_*"}},
		{name: "prefix of an engine", mutate: all(lmcacheTier, named("sglang-cache")), create: []string{"SGLANG_*"}},
		{name: "prefix of LMCache", mutate: all(lmcacheTier, named("lmcache-"+strings.Repeat("x", 200))), create: []string{"LMCACHE_*"}},
		{name: "only the beginning of a word", mutate: all(lmcacheTier, named("vllmcache"))},
		{name: "not at the beginning", mutate: all(lmcacheTier, named("my-vllm"))},
		{name: "external", mutate: all(remote(lmcache, external), named("vllm"))},
		{name: "events only", mutate: all(lmcacheTier, mode("EventsOnly"), named("vllm"))},
		{name: "unmanaged", mutate: all(remote(redis, managed), named("vllm"))},
		{name: "both", mutate: all(mooncakeTier, named("lmcache")), update: []string{flag}, create: []string{flag, "LMCACHE_*"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cb := validBackend()
			tt.mutate(cb)
			checkWarnings(t, tt.update, WarningsForCacheBackend(cb))
			checkWarnings(t, tt.create, WarningsForCacheBackendCreate(cb))
		})
	}
}

func checkWarnings(t *testing.T, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("got %q, want %d", got, len(want))
	}
	for i, warning := range got {
		if !strings.Contains(warning, want[i]) || len([]rune(warning)) > 120 {
			t.Errorf("warning of %d characters is %q, want %q in it", len([]rune(warning)), warning, want[i])
		}
	}
}
