// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestVLLMEnv(t *testing.T) {
	t.Parallel()
	lm := &binding.Binding{Protocol: binding.ProtocolLM, Endpoint: "h:1"}
	quantity := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	// With a remote tier and nothing else.
	remote := map[string]string{
		"LMCACHE_REMOTE_URL": "lm://h:1", "LMCACHE_REMOTE_SERDE": "naive", "LMCACHE_CHUNK_SIZE": "256",
		"LMCACHE_LOCAL_CPU": "False", "LMCACHE_MAX_LOCAL_CPU_SIZE": "20", "VLLM_USE_V1": "1",
		"INFERENCECACHE_FAIL_OPEN": "true", "PYTHONHASHSEED": "0",
	}
	tests := []struct {
		name   string
		wiring Wiring
		// change has what differs from remote, with "-" for what is not there.
		change map[string]string
	}{
		{name: "remote tier", wiring: Wiring{FailOpen: true, Binding: lm}},
		{name: "host-only", wiring: Wiring{FailOpen: true}, change: map[string]string{"LMCACHE_REMOTE_URL": "-", "LMCACHE_LOCAL_CPU": "True"}},
		{name: "fail closed", wiring: Wiring{Binding: lm}, change: map[string]string{"INFERENCECACHE_FAIL_OPEN": "false"}},
		{name: "typed values", wiring: Wiring{FailOpen: true, Binding: lm, LMCache: LMCache{
			ChunkSizeTokens: new(int32(131072)), RemoteSerde: "cachegen", HostMemory: quantity("1536Mi")}},
			change: map[string]string{"LMCACHE_CHUNK_SIZE": "131072", "LMCACHE_REMOTE_SERDE": "cachegen", "LMCACHE_LOCAL_CPU": "True", "LMCACHE_MAX_LOCAL_CPU_SIZE": "2"}},
		{name: "values that are none", wiring: Wiring{FailOpen: true, Binding: lm, LMCache: LMCache{
			ChunkSizeTokens: new(int32(0)), HostMemory: quantity("-1")}}, change: map[string]string{"LMCACHE_LOCAL_CPU": "True"}},
		{name: "beyond all memory", wiring: Wiring{FailOpen: true, Binding: lm, LMCache: LMCache{HostMemory: quantity("1e2000000000")}},
			change: map[string]string{"LMCACHE_LOCAL_CPU": "True"}},
		{name: "scheme in any case", wiring: Wiring{FailOpen: true, Binding: &binding.Binding{Protocol: binding.ProtocolLM, Endpoint: "LM://Host:1"}},
			change: map[string]string{"LMCACHE_REMOTE_URL": "lm://Host:1"}},
		{name: "mooncake", wiring: Wiring{FailOpen: true, Binding: &binding.Binding{Protocol: binding.ProtocolMooncakeStore, Endpoint: "h:1"}},
			change: map[string]string{"LMCACHE_REMOTE_URL": "mooncakestore://h:1"}},
		{name: "another scheme is kept", wiring: Wiring{FailOpen: true, Binding: &binding.Binding{Protocol: binding.ProtocolMooncakeStore, Endpoint: "lm://h:1"}},
			change: map[string]string{"LMCACHE_REMOTE_URL": "mooncakestore://lm://h:1"}},
		{name: "host named like the scheme", wiring: Wiring{FailOpen: true, Binding: &binding.Binding{Protocol: binding.ProtocolLM, Endpoint: "lm:1"}},
			change: map[string]string{"LMCACHE_REMOTE_URL": "lm://lm:1"}},
	}
	order := []string{
		"LMCACHE_REMOTE_URL", "LMCACHE_REMOTE_SERDE", "LMCACHE_CHUNK_SIZE", "LMCACHE_LOCAL_CPU",
		"LMCACHE_MAX_LOCAL_CPU_SIZE", "VLLM_USE_V1", "INFERENCECACHE_FAIL_OPEN", "PYTHONHASHSEED",
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var want []corev1.EnvVar
			for _, name := range order {
				value := remote[name]
				if changed, ok := tt.change[name]; ok {
					value = changed
				}
				if value != "-" {
					want = append(want, corev1.EnvVar{Name: name, Value: value})
				}
			}
			wired := mustWire(t, vllmLMCache, enginePod("vllm"), tt.wiring, Subscriber{})
			if diff := cmp.Diff(want, wired.Spec.Containers[0].Env); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVLLMHostOnlyHasNoRemoteURL(t *testing.T) {
	t.Parallel()
	pod := enginePod("vllm")
	pod.Spec.Containers[0].Env = variables("LMCACHE_REMOTE_URL=lm://a:1\nHOME=/\nLMCACHE_REMOTE_URL=lm://b:1")
	wired := mustWire(t, vllmLMCache, pod, Wiring{}, Subscriber{})
	if env := wired.Spec.Containers[0].Env; indexEnv(env, "LMCACHE_REMOTE_URL") >= 0 || env[0].Name != "HOME" {
		t.Errorf("environment is %v", env)
	}
}

func TestVLLMRole(t *testing.T) {
	t.Parallel()
	for role, want := range map[v1alpha1.IntegrationRole]string{
		"ReadOnly": "kv_consumer", "WriteOnly": "kv_producer", "ReadWrite": "kv_both", "": "kv_both", "readonly": "kv_both",
	} {
		wired := mustWire(t, vllmLMCache, enginePod("vllm", "serve"), Wiring{Role: role}, Subscriber{})
		args := []string{"serve", "--kv-transfer-config", `{"kv_connector":"LMCacheConnectorV1","kv_role":"` + want + `"}`}
		if diff := cmp.Diff(args, wired.Spec.Containers[0].Args); diff != "" {
			t.Errorf("role %q (-want +got):\n%s", role, diff)
		}
	}
}

func TestEngineHostNetwork(t *testing.T) {
	t.Parallel()
	mooncake := &binding.Binding{Protocol: binding.ProtocolMooncakeStore, Endpoint: "h:1"}
	tests := []struct {
		name     string
		wiring   Wiring
		users    bool
		want     bool
		wantDNS  corev1.DNSPolicy
		usersDNS corev1.DNSPolicy
	}{
		{name: "asked for", wiring: Wiring{Binding: mooncake, EngineHostNetwork: true}, usersDNS: "Default", want: true, wantDNS: "ClusterFirstWithHostNet"},
		{name: "not asked for", wiring: Wiring{Binding: mooncake}, usersDNS: "Default", wantDNS: "Default"},
		{name: "the user's own", wiring: Wiring{Binding: mooncake}, users: true, usersDNS: "None", want: true, wantDNS: "None"},
		{name: "another remote tier", wiring: Wiring{Binding: &binding.Binding{Protocol: binding.ProtocolLM, Endpoint: "h:1"}, EngineHostNetwork: true}},
		{name: "host-only", wiring: Wiring{EngineHostNetwork: true}},
	}
	for _, tt := range tests {
		pod := enginePod("vllm")
		pod.Spec.HostNetwork, pod.Spec.DNSPolicy = tt.users, tt.usersDNS
		spec := mustWire(t, vllmLMCache, pod, tt.wiring, Subscriber{}).Spec
		if spec.HostNetwork != tt.want || spec.DNSPolicy != tt.wantDNS {
			t.Errorf("%s: host network %v with the DNS policy %q, want %v with %q", tt.name, spec.HostNetwork, spec.DNSPolicy, tt.want, tt.wantDNS)
		}
	}
}
