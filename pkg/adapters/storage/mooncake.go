// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// mooncakeImage is the one that is pinned. Its name is complete for nodes that do not
// resolve short ones.
const mooncakeImage = "docker.io/kvcacheai/mooncake:0.3.11.post1"

// mooncake is the master of a Mooncake store.
type mooncake struct{}

func (mooncake) Name() v1alpha1.StorageProvider {
	return v1alpha1.StorageProviderMooncake
}

func (mooncake) Protocol() binding.Protocol {
	return binding.ProtocolMooncakeStore
}

// Singleton always holds: masters keep their metadata apart, and a second one on the same
// node collides with the host ports of the first.
func (mooncake) Singleton(Usage) bool {
	return true
}

// describe puts the master on the host network, behind a name that resolves to its node:
// it only says where a block lies, and engines then dial that node on any port.
func (mooncake) describe(server Server) tier {
	command, args := server.commandLine([]string{"mooncake_master"}, []string{
		"--rpc_port=50051",
		"--metrics_port=9003",
		"--enable_http_metadata_server=true",
		"--http_metadata_server_host=0.0.0.0",
		"--http_metadata_server_port=8080",
	})
	return tier{
		container: "mooncake-master",
		image:     server.image(mooncakeImage),
		command:   command,
		args:      args,
		ports: []port{
			{name: "mooncake-rpc", number: 50051},
			{name: "mooncake-meta", number: 8080},
			{name: "metrics", number: 9003, internal: true},
		},
		probeDelay:  5,
		hostNetwork: true,
		headless:    true,
	}
}
