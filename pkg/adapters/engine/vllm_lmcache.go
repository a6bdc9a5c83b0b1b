// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// vllmLMCache is vLLM with LMCache as its KV connector.
var vllmLMCache = capabilities{
	pair: Pair{Runtime: v1alpha1.RuntimeVLLM, Type: v1alpha1.CacheTypeLMCache},
	reservedArgs: []string{
		"--kv-transfer-config",
	},
	reservedEnv: []string{
		"VLLM_USE_V1",
		"LMCACHE_REMOTE_URL",
		"INFERENCECACHE_FAIL_OPEN",
		// Without one hash seed for all workers LMCache never finds what it stored.
		"PYTHONHASHSEED",
	},
	hostOnly:  true,
	protocols: []binding.Protocol{binding.ProtocolLM, binding.ProtocolMooncakeStore},
}
