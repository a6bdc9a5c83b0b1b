// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestNames(t *testing.T) {
	t.Parallel()
	want := []v1alpha1.StorageProvider{"Redis", "LMCacheServer", "Mooncake"}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		provider, found := Lookup(name)
		if !found || provider.Name() != name {
			t.Fatalf("looking up %s found %v", name, provider)
		}
		// The parser of endpoints has its own view of protocols.
		if want, _ := binding.ProtocolOf(name); provider.Protocol() != want {
			t.Errorf("%s speaks %q, want %q", name, provider.Protocol(), want)
		}
	}
	for _, name := range []v1alpha1.StorageProvider{"", "redis", "Valkey"} {
		if provider, found := Lookup(name); found {
			t.Errorf("looking up %q found %v", name, provider)
		}
	}
}

func TestSingleton(t *testing.T) {
	t.Parallel()
	sglang := Usage{Runtime: "SGLang", Type: "LMCache", Mode: "Offload", Ownership: "Managed"}
	with := func(change func(*Usage)) Usage {
		usage := sglang
		change(&usage)
		return usage
	}
	tests := []struct {
		name  string
		usage Usage
		redis bool
	}{
		{name: "SGLang with LMCache", usage: sglang, redis: true},
		{name: "runtime as older objects spell it", usage: with(func(u *Usage) { u.Runtime = "sglang" }), redis: true},
		{name: "type left out", usage: with(func(u *Usage) { u.Type = "" }), redis: true},
		{name: "HiCache", usage: with(func(u *Usage) { u.Type = "SGLangHiCache" })},
		{name: "VLLM", usage: with(func(u *Usage) { u.Runtime = "VLLM" })},
		{name: "events only", usage: with(func(u *Usage) { u.Mode = "EventsOnly" })},
		{name: "external", usage: with(func(u *Usage) { u.Ownership = "External" })},
		{name: "nothing known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, want := range map[v1alpha1.StorageProvider]bool{
				"Redis": tt.redis, "LMCacheServer": false, "Mooncake": true,
			} {
				provider, _ := Lookup(name)
				if got := provider.Singleton(tt.usage); got != want {
					t.Errorf("%s: singleton is %v, want %v", name, got, want)
				}
			}
		})
	}
}
