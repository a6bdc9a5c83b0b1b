// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"inferencecache.io/inferencecache/pkg/cacheserver"
	"inferencecache.io/inferencecache/pkg/registry/cacheindex"
)

const (
	// defaultSnapshotURL is where a cache server in the server's own namespace has its index.
	defaultSnapshotURL = "http://inference-cache-server:8081/snapshot"
	// defaultServerTokenFile holds a token for the cache server and nobody else.
	defaultServerTokenFile = "/var/run/secrets/inferencecache.io/controller-token/token"
)

// CacheServerOptions say how to read the cache server's index, which CacheIndex shows.
type CacheServerOptions struct {
	// SnapshotURL is the URL of the index, which CacheIndex tells everybody who may read it.
	// Empty means that there is no cache server.
	SnapshotURL string
	// TokenFile holds the bearer token for it. Without such a file there is none.
	TokenFile string
	// CAFile holds the certificates to trust in place of the system's, if URL is https.
	CAFile string
	// TLSServerName is the name in the cache server's certificate, empty for the host of URL.
	TLSServerName string
	// Server is used instead of the one that the rest describes. It exists for tests and has
	// no flag.
	Server cacheindex.Server
}

func newCacheServerOptions() CacheServerOptions {
	return CacheServerOptions{SnapshotURL: defaultSnapshotURL, TokenFile: defaultServerTokenFile}
}

func (o *CacheServerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.SnapshotURL, "server-snapshot-url", o.SnapshotURL,
		"URL of the cache server's index, which CacheIndex shows. Empty if there is no cache server.")
	flags.StringVar(&o.TokenFile, "server-token-file", o.TokenFile,
		"File with the bearer token for the cache server. It is read for each call; without the file there is no token.")
	flags.StringVar(&o.CAFile, "server-ca-file", o.CAFile,
		"File with the certificates that an https cache server is checked with. Empty for those of the system.")
	flags.StringVar(&o.TLSServerName, "server-tls-server-name", o.TLSServerName,
		"Name that the certificate of an https cache server must have. Empty for the host of its URL.")
}

func (o *CacheServerOptions) validate() []error {
	if o.SnapshotURL == "" {
		return nil
	}
	if _, err := o.client(); err != nil {
		return []error{err}
	}
	return nil
}

func (o *CacheServerOptions) client() (*cacheserver.Client, error) {
	client, err := cacheserver.New(cacheserver.Target{
		URL: o.SnapshotURL, TokenFile: o.TokenFile, CAFile: o.CAFile, ServerName: o.TLSServerName,
	})
	if err != nil {
		return nil, fmt.Errorf("--server-snapshot-url cannot be used: %w", err)
	}
	return client, nil
}

// server returns where the index is read from.
func (o *CacheServerOptions) server() (cacheindex.Server, error) {
	switch {
	case o.Server != nil:
		return o.Server, nil
	case o.SnapshotURL == "":
		return noCacheServer{}, nil
	default:
		return o.client()
	}
}

// noCacheServer stands for the cache server where there is none.
type noCacheServer struct{}

func (noCacheServer) Snapshot(context.Context) (*cacheserver.Snapshot, error) {
	return nil, errors.New("no cache server is configured (--server-snapshot-url)")
}
