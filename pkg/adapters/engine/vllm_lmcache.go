// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/adapters/quantity"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	argKVTransferConfig = "--kv-transfer-config"

	envRemoteURL = "LMCACHE_REMOTE_URL"
	envUseV1     = "VLLM_USE_V1"
	envFailOpen  = "INFERENCECACHE_FAIL_OPEN"
	envHashSeed  = "PYTHONHASHSEED"

	defaultSerde           = "naive"
	defaultChunkSizeTokens = 256
	defaultLocalCPUGiB     = 20
)

// vllmLMCache is vLLM with LMCache as its KV connector.
var vllmLMCache = table{
	pair:         Pair{Runtime: v1alpha1.RuntimeVLLM, Type: v1alpha1.CacheTypeLMCache},
	reservedArgs: []string{argKVTransferConfig},
	reservedEnv: []string{
		envUseV1,
		envRemoteURL,
		envFailOpen,
		// Without one hash seed for all workers LMCache never finds what it stored.
		envHashSeed,
	},
	hostOnly:      true,
	protocols:     []binding.Protocol{binding.ProtocolLM, binding.ProtocolMooncakeStore},
	containerName: ContainerVLLM,
	hashScheme:    "vllm",
	kernelCheck:   true,
	injection:     injectVLLM,
}

// injectVLLM writes the environment that LMCache reads inside vLLM, and the connector that
// makes vLLM load it.
func injectVLLM(spec *corev1.PodSpec, container *corev1.Container, wiring Wiring) error {
	if wiring.Binding == nil {
		// An engine without a remote tier must not dial one.
		container.Env = removeEnv(container.Env, envRemoteURL)
	}
	for _, variable := range vllmEnv(wiring) {
		container.Env = setEnv(container.Env, variable.Name, variable.Value)
	}
	connector := fmt.Sprintf(`{"kv_connector":"LMCacheConnectorV1","kv_role":"%s"}`, kvRole(wiring.Role))
	container.Args = setArgPair(container.Args, argKVTransferConfig, connector)

	// Mooncake's data path dials the addresses of nodes. It is not for us to take a pod off
	// the host network again: the user may have put it there.
	if wiring.EngineHostNetwork && wiring.Binding != nil && wiring.Binding.Protocol == binding.ProtocolMooncakeStore {
		spec.HostNetwork = true
		spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	return nil
}

// vllmEnv lists the variables in the order in which they are appended.
func vllmEnv(wiring Wiring) []corev1.EnvVar {
	var env []corev1.EnvVar
	if wiring.Binding != nil {
		env = append(env, corev1.EnvVar{Name: envRemoteURL, Value: remoteURL(*wiring.Binding)})
	}
	serde := wiring.LMCache.RemoteSerde
	if serde == "" {
		serde = defaultSerde
	}
	localCPU := "False"
	if wiring.LMCache.HostMemory != nil || wiring.Binding == nil {
		localCPU = "True"
	}
	size := cmp.Or(hostMemoryGiB(wiring.LMCache), defaultLocalCPUGiB)
	return append(env,
		corev1.EnvVar{Name: "LMCACHE_REMOTE_SERDE", Value: serde},
		corev1.EnvVar{Name: "LMCACHE_CHUNK_SIZE", Value: strconv.Itoa(int(chunkSize(wiring.LMCache)))},
		corev1.EnvVar{Name: "LMCACHE_LOCAL_CPU", Value: localCPU},
		corev1.EnvVar{Name: "LMCACHE_MAX_LOCAL_CPU_SIZE", Value: strconv.FormatInt(size, 10)},
		corev1.EnvVar{Name: envUseV1, Value: "1"},
		corev1.EnvVar{Name: envFailOpen, Value: strconv.FormatBool(wiring.FailOpen)},
		corev1.EnvVar{Name: envHashSeed, Value: "0"},
	)
}

// remoteURL puts the protocol's scheme before an endpoint, which may have it already, in
// any case. The rest of the endpoint stays as it is.
func remoteURL(b binding.Binding) string {
	scheme := string(b.Protocol) + "://"
	endpoint := b.Endpoint
	if len(endpoint) >= len(scheme) && strings.EqualFold(endpoint[:len(scheme)], scheme) {
		endpoint = endpoint[len(scheme):]
	}
	return scheme + endpoint
}

// hostMemoryGiB is how much memory the cache may have, 0 when that is not said.
func hostMemoryGiB(lmCache LMCache) int64 {
	if lmCache.HostMemory == nil {
		return 0
	}
	return quantity.Of(*lmCache.HostMemory).Gibibytes()
}

// chunkSize falls back to the default for a stored value that is no size.
func chunkSize(lmCache LMCache) int32 {
	if lmCache.ChunkSizeTokens == nil || *lmCache.ChunkSizeTokens < 1 {
		return defaultChunkSizeTokens
	}
	return *lmCache.ChunkSizeTokens
}

func kvRole(role v1alpha1.IntegrationRole) string {
	switch role {
	case v1alpha1.IntegrationRoleReadOnly:
		return "kv_consumer"
	case v1alpha1.IntegrationRoleWriteOnly:
		return "kv_producer"
	default:
		return "kv_both"
	}
}
