// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func remote(provider v1alpha1.StorageProvider, ownership v1alpha1.StorageOwnership, endpoint string) *RemoteStorage {
	return &RemoteStorage{Provider: provider, Ownership: ownership, Endpoint: endpoint}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	unmanaged := Classification{Path: Unmanaged}
	tests := []struct {
		name    string
		request Request
		want    Classification
	}{
		{name: "events only without an adapter", request: Request{Runtime: "VLLM", Type: "SGLangHiCache", Mode: "EventsOnly"}, want: unmanaged},
		{name: "events only", request: Request{Runtime: "VLLM", Type: "LMCache", Mode: "EventsOnly"}, want: Classification{Path: EventsOnly}},
		{name: "events only wins over an external tier", request: Request{Runtime: "SGLang", Mode: "EventsOnly",
			RemoteStorage: remote("Redis", "External", "h:1")}, want: Classification{Path: EventsOnly}},
		{name: "events only wins over an unknown provider", request: Request{Runtime: "SGLang", Mode: "EventsOnly",
			RemoteStorage: remote("Valkey", "", "")}, want: Classification{Path: EventsOnly}},
		{name: "events only with HiCache", request: Request{Runtime: "SGLang", Type: "SGLangHiCache", Mode: "EventsOnly"},
			want: Classification{Path: EventsOnly}},
		{name: "no adapter", request: Request{Runtime: "TensorRT", Type: "LMCache"}, want: unmanaged},
		{name: "no adapter for the pair", request: Request{Runtime: "VLLM", Type: "SGLangHiCache",
			RemoteStorage: remote("LMCacheServer", "Managed", "")}, want: unmanaged},
		{name: "external with an unknown provider", request: Request{Runtime: "VLLM",
			RemoteStorage: remote("Valkey", "External", "h:1")}, want: unmanaged},
		{name: "external with a refused protocol", request: Request{Runtime: "VLLM",
			RemoteStorage: remote("Redis", "External", "h:1")}, want: unmanaged},
		{name: "external", request: Request{Runtime: "VLLM", Type: "LMCache", Mode: "Offload",
			RemoteStorage: remote("LMCacheServer", "External", " lm://h:1\n")},
			want: Classification{Path: External, Protocol: binding.ProtocolLM, Endpoint: "lm://h:1"}},
		{name: "external with a bad endpoint", request: Request{Runtime: "VLLM",
			RemoteStorage: remote("Mooncake", "External", "h")},
			want: Classification{Path: External, Protocol: binding.ProtocolMooncakeStore, Endpoint: "h"}},
		{name: "HiCache alone", request: Request{Runtime: "SGLang", Type: "SGLangHiCache"}, want: unmanaged},
		{name: "host-only", request: Request{Runtime: "VLLM", Type: "LMCache"}, want: Classification{Path: HostOnly}},
		{name: "host-only with the type left out", request: Request{Runtime: "SGLang"}, want: Classification{Path: HostOnly}},
		{name: "runtime as older objects spell it", request: Request{Runtime: "sglang"}, want: Classification{Path: HostOnly}},
		{name: "managed with a refused protocol", request: Request{Runtime: "SGLang",
			RemoteStorage: remote("Mooncake", "Managed", "")}, want: unmanaged},
		{name: "managed with an unknown provider", request: Request{Runtime: "SGLang",
			RemoteStorage: remote("", "Managed", "")}, want: unmanaged},
		{name: "unknown ownership", request: Request{Runtime: "SGLang", RemoteStorage: remote("Redis", "Shared", "")}, want: unmanaged},
		{name: "no ownership", request: Request{Runtime: "SGLang", RemoteStorage: remote("Redis", "", "")}, want: unmanaged},
		{name: "managed", request: Request{Runtime: "SGLang", Type: "LMCache", Mode: "Offload",
			RemoteStorage: remote("Redis", "Managed", "ignored:1")},
			want: Classification{Path: Managed, Protocol: binding.ProtocolRESP}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Classify(tt.request)); diff != "" {
				t.Errorf("classification (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClassifyPairs has every pair with every remote tier.
func TestClassifyPairs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		runtime   v1alpha1.Runtime
		cacheType v1alpha1.CacheType
		hostOnly  Path
		accepted  map[v1alpha1.StorageProvider]bool
	}{
		{runtime: "VLLM", cacheType: "LMCache", hostOnly: HostOnly, accepted: map[v1alpha1.StorageProvider]bool{"LMCacheServer": true, "Mooncake": true}},
		{runtime: "SGLang", cacheType: "LMCache", hostOnly: HostOnly, accepted: map[v1alpha1.StorageProvider]bool{"Redis": true}},
		{runtime: "SGLang", cacheType: "SGLangHiCache", hostOnly: Unmanaged},
		{runtime: "VLLM", cacheType: "SGLangHiCache", hostOnly: Unmanaged},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %s", tt.runtime, tt.cacheType), func(t *testing.T) {
			t.Parallel()
			request := Request{Runtime: tt.runtime, Type: tt.cacheType, Mode: v1alpha1.IntegrationModeOffload}
			if got := Classify(request).Path; got != tt.hostOnly {
				t.Errorf("host-only: path is %s, want %s", got, tt.hostOnly)
			}
			for _, provider := range []v1alpha1.StorageProvider{"Redis", "LMCacheServer", "Mooncake"} {
				for ownership, path := range map[v1alpha1.StorageOwnership]Path{"Managed": Managed, "External": External} {
					request.RemoteStorage = remote(provider, ownership, "h:1")
					want := Unmanaged
					if tt.accepted[provider] {
						want = path
					}
					if got := Classify(request).Path; got != want {
						t.Errorf("%s %s: path is %s, want %s", ownership, provider, got, want)
					}
				}
			}
		})
	}
}
