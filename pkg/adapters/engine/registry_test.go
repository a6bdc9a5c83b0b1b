// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestSupportedPairs(t *testing.T) {
	t.Parallel()
	var got []string
	for _, pair := range SupportedPairs() {
		got = append(got, pair.String())
	}
	want := []string{"VLLM/LMCache", "SGLang/LMCache", "SGLang/SGLangHiCache"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	tests := []struct {
		runtime   v1alpha1.Runtime
		cacheType v1alpha1.CacheType
		want      string
	}{
		{runtime: "VLLM", cacheType: "LMCache", want: "vllm/LMCache"},
		{runtime: "VLLM", want: "vllm/LMCache"},
		{runtime: "vllm", cacheType: "LMCache", want: "vllm/LMCache"},
		{runtime: "SGLang", cacheType: "LMCache", want: "sglang/LMCache"},
		{runtime: "sglang", want: "sglang/LMCache"},
		{runtime: "SGLang", cacheType: "SGLangHiCache", want: "sglang/SGLangHiCache"},
		{runtime: "VLLM", cacheType: "SGLangHiCache"},
		{runtime: "SGLang", cacheType: "sglanghicache"},
		{runtime: "TensorRT", cacheType: "LMCache"},
		{cacheType: "LMCache"},
		{},
	}
	for _, tt := range tests {
		got := ""
		adapter, found := Lookup(tt.runtime, tt.cacheType)
		if found {
			got = adapter.Name()
		}
		if got != tt.want {
			t.Errorf("adapter of %q and %q is %q, want %q", tt.runtime, tt.cacheType, got, tt.want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pair      Pair
		args, env []string
		protocols map[binding.Protocol]bool
		container string
		scheme    string
		kernels   bool
	}{
		{
			pair:      Pair{Runtime: "VLLM", Type: "LMCache"},
			args:      []string{"--kv-transfer-config"},
			env:       []string{"VLLM_USE_V1", "LMCACHE_REMOTE_URL", "INFERENCECACHE_FAIL_OPEN", "PYTHONHASHSEED"},
			protocols: map[binding.Protocol]bool{"lm": true, "resp": false, "mooncakestore": true},
			container: "vllm",
			scheme:    "vllm",
			kernels:   true,
		},
		{
			pair:      Pair{Runtime: "SGLang", Type: "LMCache"},
			args:      []string{"--enable-lmcache", "--lmcache-config-file"},
			env:       []string{"LMCACHE_USE_EXPERIMENTAL", "INFERENCECACHE_FAIL_OPEN"},
			protocols: map[binding.Protocol]bool{"lm": false, "resp": true, "mooncakestore": false},
			container: "sglang",
			scheme:    "sglang",
		},
		{
			pair: Pair{Runtime: "SGLang", Type: "SGLangHiCache"},
			args: []string{
				"--enable-hierarchical-cache", "--hicache-size", "--hicache-ratio",
				"--hicache-write-policy", "--hicache-io-backend", "--hicache-mem-layout",
			},
			protocols: map[binding.Protocol]bool{"lm": false, "resp": false, "mooncakestore": false},
			container: "sglang",
			scheme:    "sglang",
		},
	}
	for _, tt := range tests {
		t.Run(tt.pair.String(), func(t *testing.T) {
			t.Parallel()
			adapter, found := Lookup(tt.pair.Runtime, tt.pair.Type)
			if !found {
				t.Fatal("there is no adapter")
			}
			if adapter.Pair() != tt.pair {
				t.Errorf("pair is %v", adapter.Pair())
			}
			if diff := cmp.Diff(tt.args, adapter.ReservedArgs()); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.env, adapter.ReservedEnv()); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
			if adapter.ContainerName() != tt.container || adapter.HashScheme() != tt.scheme || adapter.HasKernelCheck() != tt.kernels {
				t.Errorf("container %q, hash scheme %q, kernel check %v", adapter.ContainerName(), adapter.HashScheme(), adapter.HasKernelCheck())
			}
			if !adapter.SupportsBinding(nil) {
				t.Error("host-only is not supported")
			}
			for protocol, want := range tt.protocols {
				if got := adapter.SupportsBinding(&binding.Binding{Protocol: protocol}); got != want {
					t.Errorf("%s: supported is %v, want %v", protocol, got, want)
				}
			}
			if adapter.SupportsBinding(&binding.Binding{}) {
				t.Error("a binding without a protocol is supported")
			}
		})
	}
}

func TestReservedListsAreCopies(t *testing.T) {
	t.Parallel()
	adapter, _ := Lookup(v1alpha1.RuntimeVLLM, v1alpha1.CacheTypeLMCache)
	adapter.ReservedArgs()[0] = "--mine"
	adapter.ReservedEnv()[0] = "MINE"
	if adapter.ReservedArgs()[0] == "--mine" || adapter.ReservedEnv()[0] == "MINE" {
		t.Error("a caller can change what is reserved")
	}
}
