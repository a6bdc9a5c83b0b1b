// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// sglangHiCache is SGLang with its own hierarchical cache, which has no remote tier.
var sglangHiCache = capabilities{
	pair: Pair{Runtime: v1alpha1.RuntimeSGLang, Type: v1alpha1.CacheTypeSGLangHiCache},
	reservedArgs: []string{
		"--enable-hierarchical-cache",
		"--hicache-size",
		"--hicache-ratio",
		"--hicache-write-policy",
		"--hicache-io-backend",
		"--hicache-mem-layout",
	},
	hostOnly: true,
}
