// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"strings"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// redisImage is the one that is pinned.
const redisImage = "docker.io/library/redis:7.4-alpine"

// redis is Redis as a shared second level.
type redis struct{}

func (redis) Name() v1alpha1.StorageProvider {
	return v1alpha1.StorageProviderRedis
}

func (redis) Protocol() binding.Protocol {
	return binding.ProtocolRESP
}

// Singleton holds for a provisioned Redis behind SGLang's LMCache workers: replicas would
// be independent stores behind one address, and a worker's keys would be spread over them
// at random. With events only there is no tier at all.
func (redis) Singleton(usage Usage) bool {
	return strings.EqualFold(string(usage.Runtime), string(v1alpha1.RuntimeSGLang)) &&
		(usage.Type == v1alpha1.CacheTypeLMCache || usage.Type == "") &&
		usage.Mode != v1alpha1.IntegrationModeEventsOnly &&
		usage.Ownership == v1alpha1.StorageOwnershipManaged
}

// describe leaves the entry point of the image alone: it drops to an unprivileged user.
// Nothing is persisted, as a cache may forget, and access is not protected by a password,
// as engines have none.
func (redis) describe(server Server) tier {
	return tier{
		container: "redis-l2",
		image:     server.image(redisImage),
		args: []string{
			"redis-server",
			"--save", "",
			"--appendonly", "no",
			"--protected-mode", "no",
			"--maxmemory", maxMemory(*server.Resources),
			"--maxmemory-policy", "allkeys-lru",
		},
		ports:      []port{{name: "redis", number: 6379}},
		probeDelay: 3,
	}
}
