// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// sglangLMCache is SGLang with an LMCache worker process beside it.
var sglangLMCache = capabilities{
	pair: Pair{Runtime: v1alpha1.RuntimeSGLang, Type: v1alpha1.CacheTypeLMCache},
	reservedArgs: []string{
		"--enable-lmcache",
		"--lmcache-config-file",
	},
	reservedEnv: []string{
		"LMCACHE_USE_EXPERIMENTAL",
		"INFERENCECACHE_FAIL_OPEN",
	},
	hostOnly:  true,
	protocols: []binding.Protocol{binding.ProtocolRESP},
}
