// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Clients print a warning on one line and may cut it, so each of these has at most 120
// characters.
const (
	warningEngineHostNetwork = "spec.integration.engineHostNetwork: not set, so Mooncake gets Ready but no KV is moved; set it to true"
	warningServiceLinks      = "metadata.name: its Service plants %s_* variables in pods; use another name, or enableServiceLinks: false there"
)

// enginePrefixes are the beginnings of variables that engines and LMCache read as their
// own settings. Kubernetes derives variables such as VLLM_PORT from the names of Services.
var enginePrefixes = []string{"vllm", "sglang", "lmcache"}

// WarningsForCacheBackend returns the warnings about a CacheBackend that was admitted, on
// create and on update.
func WarningsForCacheBackend(cb *inferencecache.CacheBackend) []string {
	c := newCandidate(cb)
	if c.provider == v1alpha1.StorageProviderMooncake && !c.engineHostNetwork() {
		return []string{warningEngineHostNetwork}
	}
	return nil
}

// WarningsForCacheBackendCreate returns the warnings about a CacheBackend that was
// created. A name cannot be changed, so updates do not repeat what is wrong with it.
func WarningsForCacheBackendCreate(cb *inferencecache.CacheBackend) []string {
	warnings := WarningsForCacheBackend(cb)
	if Classify(cb).Path != adapters.Managed {
		return warnings
	}
	if prefix, found := enginePrefix(cb.Name); found {
		warnings = append(warnings, strings.Replace(warningServiceLinks, "%s", strings.ToUpper(prefix), 1))
	}
	return warnings
}

// enginePrefix finds the engine whose settings the variables of a Service look like.
func enginePrefix(name string) (string, bool) {
	for _, prefix := range enginePrefixes {
		if name == prefix || strings.HasPrefix(name, prefix+"-") {
			return prefix, true
		}
	}
	return "", false
}
