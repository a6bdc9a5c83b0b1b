// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestEndpoint(t *testing.T) {
	t.Parallel()
	const path = " spec.remoteStorage.endpoint"
	ext := func(text string) mutation { return all(sglang, remote(redis, external), endpoint(text)) }
	man := func(text string) mutation { return all(sglang, remote(redis, managed), endpoint(text)) }
	allow := func(cb *inferencecache.CacheBackend) { cb.Spec.AllowCrossNamespace = true }
	runRuleTests(t, []ruleTest{
		{name: "managed", mutate: man("shard1:6379"), want: []string{forbidden + path}, detail: "shard1:6379"},
		{name: "managed and malformed", mutate: man("shard1"), want: []string{forbidden + path}},
		{name: "managed and blank", mutate: man(" \t")},
		{name: "managed and foreign", mutate: man("kv.vault.svc:6379"), want: []string{forbidden + path}},
		{name: "external", mutate: ext("  shard1:6379 ")},
		{name: "external and missing", mutate: ext(""), want: []string{required + path}},
		{name: "external and blank", mutate: ext(" \n"), want: []string{required + path}, detail: "host:port"},
		{name: "no port", mutate: ext("shard1"), want: []string{invalid + path}, detail: "has no port"},
		{name: "foreign", mutate: ext("kv.vault.svc:6379"), want: []string{forbidden + path},
			detail: `"kv.vault.svc:6379" is a Service of the namespace "vault" and this object is in "kv-lab"`},
		{name: "foreign and malformed", mutate: ext("kv.vault.svc:port"), want: []string{invalid + path, forbidden + path}},
		{name: "foreign and allowed", mutate: all(ext("kv.vault.svc:6379"), allow)},
		{name: "malformed and allowed", mutate: all(ext("kv.vault.svc:port"), allow), want: []string{invalid + path}},
		{name: "own namespace", mutate: ext("kv.KV-Lab.svc.cluster.local:6379")},
		{name: "unknown provider", mutate: all(remote("Valkey", external), endpoint("not an endpoint"))},
		{name: "unknown provider and blank", mutate: all(remote("Valkey", external), endpoint(" ")), want: []string{required + path}},
		{name: "unknown provider and foreign", mutate: all(remote("Valkey", external), endpoint("kv.vault.svc")), want: []string{forbidden + path}},
		{name: "unknown ownership", mutate: all(sglang, remote(redis, "Shared"), endpoint("shard1"))},
		{name: "unknown ownership and foreign", mutate: all(sglang, remote(redis, "Shared"), endpoint("kv.vault.svc")), want: []string{forbidden + path}},
	})
}

func TestProviderBlocks(t *testing.T) {
	t.Parallel()
	blocks := func(cb *inferencecache.CacheBackend) {
		cb.Spec.RemoteStorage.Redis = &inferencecache.RedisSpec{}
		cb.Spec.RemoteStorage.LMCacheServer = &inferencecache.LMCacheServerSpec{}
		cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{}
	}
	const (
		redisBlock    = forbidden + " spec.remoteStorage.redis"
		lmcacheBlock  = forbidden + " spec.remoteStorage.lmCacheServer"
		mooncakeBlock = forbidden + " spec.remoteStorage.mooncake"
	)
	runRuleTests(t, []ruleTest{
		{name: "managed Redis", mutate: all(sglang, remote(redis, managed), blocks), want: []string{lmcacheBlock, mooncakeBlock}, detail: "the provider is Redis"},
		{name: "managed LMCacheServer", mutate: all(remote(lmcache, managed), blocks), want: []string{redisBlock, mooncakeBlock}},
		{name: "managed Mooncake", mutate: all(remote(mooncake, managed), blocks), want: []string{redisBlock, lmcacheBlock}},
		{name: "external Mooncake", mutate: all(remote(mooncake, external), blocks), want: []string{redisBlock, lmcacheBlock, mooncakeBlock}},
		{name: "unknown provider", mutate: all(remote("Valkey", managed), blocks)},
		{name: "unknown external provider", mutate: all(remote("Valkey", external), blocks),
			want: []string{redisBlock, lmcacheBlock, mooncakeBlock}, detail: "External"},
		{name: "unknown ownership", mutate: all(remote(mooncake, "Shared"), blocks), want: []string{redisBlock, lmcacheBlock}},
	})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	command := func(command ...string) mutation {
		return func(cb *inferencecache.CacheBackend) {
			switch cb.Spec.RemoteStorage.Provider {
			case mooncake:
				cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{Command: command}
			default:
				cb.Spec.RemoteStorage.LMCacheServer = &inferencecache.LMCacheServerSpec{Command: command}
			}
		}
	}
	empty := command([]string{}...)
	const lm, mc = " spec.remoteStorage.lmCacheServer.command", " spec.remoteStorage.mooncake.command"
	runRuleTests(t, []ruleTest{
		{name: "none", mutate: all(remote(lmcache, managed), command())},
		{name: "some", mutate: all(remote(lmcache, managed), command("a", " b"))},
		{name: "empty", mutate: all(remote(lmcache, managed), empty), want: []string{invalid + lm}, detail: "at least one entry"},
		{name: "empty for Mooncake", mutate: all(remote(mooncake, managed), empty), want: []string{invalid + mc}},
		{name: "blank entries", mutate: all(remote(lmcache, managed), command("", "a", " \t")), want: []string{invalid + lm + "[0]", invalid + lm + "[2]"}},
		{name: "blank entry for Mooncake", mutate: all(remote(mooncake, managed), command(" ")), want: []string{invalid + mc + "[0]"}},
		{name: "external", mutate: all(remote(lmcache, external), empty), want: []string{forbidden + " spec.remoteStorage.lmCacheServer"}},
		{name: "another provider", mutate: all(sglang, remote(redis, managed), empty), want: []string{forbidden + " spec.remoteStorage.lmCacheServer"}},
		{name: "unknown ownership", mutate: all(remote(lmcache, "Shared"), empty)},
		{name: "unknown provider", mutate: all(remote("Valkey", managed), empty)},
	})
}
