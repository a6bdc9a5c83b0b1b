// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// lmCacheServerImage is the one that is pinned. It must speak the wire version of the
// clients in engine images, and a tag that moves would break that silently.
const lmCacheServerImage = "lmcache/standalone:v0.4.7"

// lmCacheServer is the stand-alone LMCache server.
type lmCacheServer struct{}

func (lmCacheServer) Name() v1alpha1.StorageProvider {
	return v1alpha1.StorageProviderLMCacheServer
}

func (lmCacheServer) Protocol() binding.Protocol {
	return binding.ProtocolLM
}

func (lmCacheServer) Singleton(Usage) bool {
	return false
}

func (lmCacheServer) describe(server Server) tier {
	command, args := server.commandLine([]string{"lmcache_server"}, []string{"0.0.0.0", "65432", "cpu"})
	return tier{
		container:  "lmcache-server",
		image:      server.image(lmCacheServerImage),
		command:    command,
		args:       args,
		ports:      []port{{name: "lmcache", number: 65432}},
		probeDelay: 5,
	}
}
