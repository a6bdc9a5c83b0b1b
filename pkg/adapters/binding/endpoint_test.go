// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	redis    = v1alpha1.StorageProviderRedis
	lmcache  = v1alpha1.StorageProviderLMCacheServer
	mooncake = v1alpha1.StorageProviderMooncake
)

var allProviders = []v1alpha1.StorageProvider{redis, lmcache, mooncake}

func TestProtocolOf(t *testing.T) {
	t.Parallel()
	for provider, want := range map[v1alpha1.StorageProvider]Protocol{
		redis: ProtocolRESP, lmcache: ProtocolLM, mooncake: ProtocolMooncakeStore,
	} {
		if got, known := ProtocolOf(provider); got != want || !known {
			t.Errorf("protocol of %s is %q, %v, want %q", provider, got, known, want)
		}
	}
	for _, provider := range []v1alpha1.StorageProvider{"", "Valkey", "redis"} {
		if got, known := ProtocolOf(provider); got != "" || known {
			t.Errorf("protocol of %q is %q, %v, want none", provider, got, known)
		}
	}
}

// TestEndpoints has, for each endpoint, the providers that take it and the namespace that
// it names.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	none := []v1alpha1.StorageProvider{}
	tests := []struct {
		endpoint  string
		accepted  []v1alpha1.StorageProvider
		namespace string
	}{
		{endpoint: "shard1.example.net:6379", accepted: allProviders},
		{endpoint: "shard1:6379", accepted: allProviders},
		{endpoint: "10.9.8.7:6379", accepted: allProviders},
		{endpoint: "999.999.1.1:6379", accepted: allProviders},
		{endpoint: "[2001:db8::7]:6379", accepted: allProviders},
		{endpoint: "[fe80::1%eth0]:6379", accepted: allProviders},
		{endpoint: "2001:db8::7:6379", accepted: none},
		{endpoint: "[2001:db8::7]", accepted: none},
		{endpoint: "[2001:db8::7]:", accepted: none},
		{endpoint: "[]:6379", accepted: none},
		{endpoint: "[2001:db8::7]6379", accepted: none},
		{endpoint: "[2001:db8::7]:6379:1", accepted: none},
		{endpoint: "[2001:db8::7:6379", accepted: none},
		{endpoint: "[kv.vault.svc]:6379", accepted: none},
		{endpoint: "shard1", accepted: none},
		{endpoint: "shard1:", accepted: none},
		{endpoint: ":6379", accepted: none},
		{endpoint: "shard1:0", accepted: none},
		{endpoint: "shard1:1", accepted: allProviders},
		{endpoint: "shard1:65535", accepted: allProviders},
		{endpoint: "shard1:65536", accepted: none},
		{endpoint: "shard1:99999999999999999999", accepted: none},
		{endpoint: "shard1:006379", accepted: allProviders},
		{endpoint: "shard1:+6379", accepted: none},
		{endpoint: "shard1:-1", accepted: none},
		{endpoint: "shard1:٦٣٧٩", accepted: none},
		{endpoint: "shard1:redis", accepted: none},
		{endpoint: "shard1.:6379", accepted: allProviders},
		{endpoint: "shard1:6379.", accepted: none},
		{endpoint: "  shard1:6379 ", accepted: allProviders},
		{endpoint: "\u00a0shard1:6379\n", accepted: allProviders},
		{endpoint: "shard1: 6379", accepted: none},
		{endpoint: "sh ard:6379", accepted: none},
		{endpoint: "sh\tard:6379", accepted: none},
		{endpoint: "sh\x00ard:6379", accepted: none},
		{endpoint: "sh\u00a0ard:6379", accepted: none},
		{endpoint: "sh\u0085ard:6379", accepted: none},
		{endpoint: "   ", accepted: none},
		{endpoint: "", accepted: none},
		{endpoint: "lm://shard1:65432", accepted: []v1alpha1.StorageProvider{lmcache}},
		{endpoint: "LM://shard1:65432", accepted: []v1alpha1.StorageProvider{lmcache}},
		{endpoint: "lm://shard1", accepted: none},
		{endpoint: "lm://:65432", accepted: none},
		{endpoint: "lm://", accepted: none},
		{endpoint: "lm://lm://shard1:65432", accepted: none},
		{endpoint: "lm:65432", accepted: allProviders},
		{endpoint: "lm:shard1:65432", accepted: none},
		{endpoint: "lm:// shard1:65432", accepted: none},
		{endpoint: "lm ://shard1:65432", accepted: none},
		{endpoint: "lm://[2001:db8::7]:65432", accepted: []v1alpha1.StorageProvider{lmcache}},
		{endpoint: "redis://shard1:6379", accepted: none},
		{endpoint: "resp://shard1:6379", accepted: none},
		{endpoint: "http://shard1:80", accepted: none},
		{endpoint: "mooncakestore://mesh:50051", accepted: []v1alpha1.StorageProvider{mooncake}},
		{endpoint: "MooncakeStore://mesh:50051", accepted: []v1alpha1.StorageProvider{mooncake}},
		{endpoint: "mooncakestore://lm://mesh:50051", accepted: none},
		{endpoint: "mooncakestore:// mesh:50051", accepted: none},
		{endpoint: "mooncakestore://[2001:db8::7]:50051", accepted: []v1alpha1.StorageProvider{mooncake}},
		{endpoint: "://shard1:80", accepted: none},
		{endpoint: "shard1:6379/", accepted: none},
		{endpoint: "shard1:6379?db=1", accepted: none},
		{endpoint: "shard1:6379#x", accepted: none},
		{endpoint: "user@shard1:6379", accepted: allProviders},
		{endpoint: "user:pw@shard1:6379", accepted: none},
		{endpoint: "a:1,b:2", accepted: none},
		{endpoint: "kv.vault.svc:6379", accepted: allProviders, namespace: "vault"},
		{endpoint: "kv.vault.svc.cluster.local:6379", accepted: allProviders, namespace: "vault"},
		{endpoint: "kv.vault.svc.cluster.local.:6379", accepted: allProviders, namespace: "vault"},
		{endpoint: "kv.vault.svc.:6379", accepted: allProviders, namespace: "vault"},
		{endpoint: "KV.Vault.SVC.Cluster.Local:6379", accepted: allProviders, namespace: "vault"},
		{endpoint: "kv-0.kv.vault.svc:6379", accepted: allProviders, namespace: "vault"},
		{endpoint: "a.b.c.vault.svc.cluster.local:6379", accepted: allProviders, namespace: "vault"},
		{endpoint: "lm://kv.vault.svc:65432", accepted: []v1alpha1.StorageProvider{lmcache}, namespace: "vault"},
		{endpoint: "kv.vault.svc:port", accepted: none, namespace: "vault"},
		{endpoint: " kv.vault.svc ", accepted: none, namespace: "vault"},
		{endpoint: "kv.vault.svc:6379/db", accepted: none, namespace: "vault"},
		{endpoint: "kv.vault.svc:6379?db=1", accepted: none, namespace: "vault"},
		{endpoint: "kv.vault:6379", accepted: allProviders},
		{endpoint: "kv.svc:6379", accepted: allProviders},
		{endpoint: "vault.svc.cluster.local:6379", accepted: allProviders},
		{endpoint: "kv..svc:6379", accepted: allProviders},
		{endpoint: "kv.vault.svc.cluster:6379", accepted: allProviders},
		{endpoint: "kv.vault.svc.example.net:6379", accepted: allProviders},
		{endpoint: "kv.vault.svc.corp.internal:6379", accepted: allProviders},
		{endpoint: "10-1-2-3.vault.pod.cluster.local:6379", accepted: allProviders},
	}
	for _, tt := range tests {
		t.Run(tt.endpoint, func(t *testing.T) {
			t.Parallel()
			accepted := []v1alpha1.StorageProvider{}
			for _, provider := range allProviders {
				endpoint, err := ParseEndpoint(provider, tt.endpoint)
				if err == nil {
					accepted = append(accepted, provider)
					checkEndpoint(t, provider, tt.endpoint, endpoint)
					continue
				}
				if missing := strings.TrimSpace(tt.endpoint) == ""; errors.Is(err, ErrEndpointMissing) != missing {
					t.Errorf("%s: error is %v, missing is %v", provider, err, missing)
				}
			}
			if diff := cmp.Diff(tt.accepted, accepted); diff != "" {
				t.Errorf("accepted by (-want +got):\n%s", diff)
			}
			namespace, found := ServiceNamespace(tt.endpoint)
			if namespace != tt.namespace || found != (tt.namespace != "") {
				t.Errorf("namespace is %q, %v, want %q", namespace, found, tt.namespace)
			}
		})
	}
}

func TestParseEndpointParts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		provider  v1alpha1.StorageProvider
		text      string
		want      Endpoint
		canonical string
	}{
		{provider: redis, text: " shard1:006379", want: Endpoint{Host: "shard1", Port: 6379}, canonical: "shard1:6379"},
		{provider: lmcache, text: "LM://Shard1.:1", want: Endpoint{Scheme: "lm", Host: "Shard1.", Port: 1}, canonical: "lm://Shard1.:1"},
		{provider: mooncake, text: "mooncakestore://[2001:db8::7]:50051",
			want:      Endpoint{Scheme: "mooncakestore", Host: "2001:db8::7", Port: 50051},
			canonical: "mooncakestore://[2001:db8::7]:50051"},
	}
	for _, tt := range tests {
		got, err := ParseEndpoint(tt.provider, tt.text)
		if err != nil {
			t.Errorf("parsing %q: %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
		if got.String() != tt.canonical {
			t.Errorf("canonical form of %q is %q, want %q", tt.text, got, tt.canonical)
		}
	}
}

func TestParseEndpointErrorsTellTheFix(t *testing.T) {
	t.Parallel()
	tests := []struct {
		provider v1alpha1.StorageProvider
		text     string
		want     string
	}{
		{provider: redis, text: " ", want: "is empty; set it to host:port"},
		{provider: redis, text: "a b:1", want: `contains white space or a control character after "a"; remove it`},
		{provider: redis, text: "redis://a:1", want: `has the scheme "redis", and Redis takes none; use host:port`},
		{provider: lmcache, text: "http://a:1", want: `has the scheme "http", which LMCacheServer does not take; use host:port or lm://host:port`},
		{provider: mooncake, text: "mooncakestore://lm://a:1", want: "has more than one scheme; use host:port or mooncakestore://host:port"},
		{provider: redis, text: "a:1/0", want: `must end with the port; remove "/0"`},
		{provider: redis, text: "a", want: "has no port; use host:port"},
		{provider: redis, text: "a:", want: "has no port after the colon; use host:port"},
		{provider: redis, text: ":1", want: "has no host; use host:port"},
		{provider: redis, text: "::1:6379", want: "has more than one colon; use host:port, with an IPv6 address in brackets"},
		{provider: redis, text: "[::1:6379", want: "has a bracket that is not closed; use [address]:port"},
		{provider: redis, text: "[]:1", want: "has nothing between its brackets; use [address]:port"},
		{provider: redis, text: "[a]:1", want: "has brackets around something else than an IPv6 address; remove them"},
		{provider: redis, text: "[::1]", want: "has no port after the bracket; use [address]:port"},
		{provider: redis, text: "[::1]:1:2", want: "has more than a port after the bracket; use [address]:port"},
		{provider: redis, text: "a:x", want: `has the port "x"; use a number from 1 to 65535`},
		{provider: redis, text: "a:0", want: `has the port "0"; use a number from 1 to 65535`},
		{provider: "Valkey", text: "a:1", want: `cannot be read for the unknown provider "Valkey"`},
	}
	for _, tt := range tests {
		_, err := ParseEndpoint(tt.provider, tt.text)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s %q: error is %v, want %q", tt.provider, tt.text, err, tt.want)
		}
	}
}

// checkEndpoint checks what holds for every endpoint that parses.
func checkEndpoint(t *testing.T, provider v1alpha1.StorageProvider, text string, endpoint Endpoint) {
	t.Helper()
	if endpoint.Port < 1 || endpoint.Port > 65535 {
		t.Errorf("%s %q: the port is %d", provider, text, endpoint.Port)
	}
	if endpoint.Host == "" {
		t.Errorf("%s %q: there is no host", provider, text)
	}
	canonical := endpoint.String()
	blank := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if strings.ContainsFunc(canonical, blank) || strings.ContainsAny(endpoint.Host, "/?#") {
		t.Errorf("%s %q: %q has characters that no endpoint has", provider, text, canonical)
	}
	again, err := ParseEndpoint(provider, canonical)
	if err != nil || again != endpoint {
		t.Errorf("%s %q: the canonical form %q parses to %v, %v", provider, text, canonical, again, err)
	}
	before, _ := ServiceNamespace(text)
	after, _ := ServiceNamespace(canonical)
	if before != after {
		t.Errorf("%s %q: names the namespace %q and its canonical form %q names %q", provider, text, before, canonical, after)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	f.Fuzz(func(t *testing.T, provider, text string) {
		p := v1alpha1.StorageProvider(provider)
		endpoint, err := ParseEndpoint(p, text)
		verdict := JudgeExternal(p, text)
		if verdict.Ready != (err == nil) {
			t.Errorf("the verdict %+v contradicts the error %v", verdict, err)
		}
		if len(verdict.Message) > 1024 {
			t.Errorf("the message has %d bytes", len(verdict.Message))
		}
		if err != nil {
			return
		}
		if _, known := ProtocolOf(p); !known {
			t.Errorf("an endpoint of the unknown provider %q parses", provider)
		}
		checkEndpoint(t, p, text, endpoint)
	})
}

func FuzzServiceNamespace(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		namespace, found := ServiceNamespace(text)
		if found != (namespace != "") {
			t.Errorf("namespace %q, found %v", namespace, found)
		}
		if strings.ContainsAny(namespace, "./?") {
			t.Errorf("namespace %q has a delimiter in it", namespace)
		}
		if again, _ := ServiceNamespace("a." + namespace + ".svc"); found && again != namespace {
			t.Errorf("namespace %q becomes %q", namespace, again)
		}
		if same, _ := ServiceNamespace(" " + text + "\n"); same != namespace {
			t.Errorf("white space around turns %q into %q", namespace, same)
		}
	})
}
