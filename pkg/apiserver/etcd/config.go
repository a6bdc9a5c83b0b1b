// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const (
	memberName = "inference-cache"
	// memberURL stands where etcd wants the address of a member's peers. There are none, and nothing listens there.
	memberURL = "unix://inference-cache"
	// defragThresholdMegabytes is how much a defragmentation at start must free to be worth its time.
	defragThresholdMegabytes = 64

	socketDirPrefix = "inference-cache-etcd-"
	socketName      = "client.sock"
	// maxSocketPath is what every Unix takes: 104 bytes with the closing zero on some, 108 on Linux.
	maxSocketPath = 103
)

// newConfig is the configuration of a single member that a client of this process alone can reach. There is no listener
// for peers: etcd would drop the path of a unix URL there and listen on an abstract socket, which has no file mode.
func newConfig(folder string, quota int64, sockets socketDir, log *zap.Logger) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = memberName
	cfg.Dir = folder
	cfg.QuotaBackendBytes = quota
	cfg.BootstrapDefragThresholdMegabytes = defragThresholdMegabytes
	// The only member elects itself, after a wait that is meant for others: most of the time of a restart by default.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.AutoCompactionRetention = "0" // the API server's client compacts

	client := url.URL{Scheme: "unix", Path: sockets.client()}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "unix", Host: memberName}}
	cfg.InitialCluster = memberName + "=" + memberURL

	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return cfg
}

// socketDir is the private folder that holds the socket.
type socketDir string

// newSocketDir makes the folder in parent, or in the first usable place with a path short enough.
func newSocketDir(parent string) (socketDir, error) {
	parents := []string{parent}
	if parent == "" {
		parents = []string{os.TempDir(), "/tmp", "/run", "/dev/shm"}
	}
	var errs []error
	for _, parent := range parents {
		dir, err := os.MkdirTemp(parent, socketDirPrefix)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s := socketDir(dir); len(s.client()) <= maxSocketPath {
			return s, nil
		}
		_ = os.Remove(dir)
		errs = append(errs, fmt.Errorf("%s is too long for the path of a socket", dir))
	}
	return "", fmt.Errorf("making a folder for the socket of the embedded etcd: %w", errors.Join(errs...))
}

func (s socketDir) client() string {
	return filepath.Join(string(s), socketName)
}

// remove takes the folder away. It removes what we put there and nothing else: after a crash the name comes from a file.
func (s socketDir) remove() {
	if !filepath.IsAbs(string(s)) || !strings.HasPrefix(filepath.Base(string(s)), socketDirPrefix) {
		return
	}
	_ = os.Remove(s.client())
	_ = os.Remove(string(s))
}
