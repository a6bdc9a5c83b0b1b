// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"inferencecache.io/inferencecache/pkg/cacheserver"
	"inferencecache.io/inferencecache/pkg/controllers/cachebackend"
	"inferencecache.io/inferencecache/pkg/controllers/participation"
	"inferencecache.io/inferencecache/pkg/controllers/policy"
)

// cacheServerOptions say where the cache server is and how to talk to it.
type cacheServerOptions struct {
	snapshotURL string
	probeURL    string
	policyURL   string

	// The endpoints take tokens of two audiences: one for policies, one for all else.
	tokenFile       string
	policyTokenFile string
	caFile          string
	serverName      string

	snapshotInterval time.Duration
	policyInterval   time.Duration
}

func (o *cacheServerOptions) addFlags(flags *pflag.FlagSet) {
	const address, tokens = "http://inference-cache-server:8081", "/var/run/secrets/inferencecache.io"
	flags.StringVar(&o.snapshotURL, "server-snapshot-url", address+"/snapshot", "URL of the cache server's snapshot of its index.")
	flags.StringVar(&o.probeURL, "server-probe-url", address+"/probe", "URL of the cache server's functional probe; empty turns the probe gate off.")
	flags.StringVar(&o.policyURL, "server-policy-url", address+"/policy", "URL that policies are pushed to.")
	flags.StringVar(&o.tokenFile, "server-token-file", tokens+"/controller-token/token", "File with the bearer token for snapshot and probe. Without it calls go out without a token.")
	flags.StringVar(&o.policyTokenFile, "policy-token-file", tokens+"/policy-token/token", "File with the bearer token for policies. Without it calls go out without a token.")
	flags.StringVar(&o.caFile, "server-ca-file", "", "File with the certificates to trust for https URLs; empty for the system's.")
	flags.StringVar(&o.serverName, "server-tls-server-name", "", "Name that the cache server's certificate must have; empty for the host of the URL.")
	flags.DurationVar(&o.snapshotInterval, "cacheindex-refresh-interval", participation.DefaultInterval, "Pause between two readings of the index; 0 or less is the default.")
	flags.DurationVar(&o.policyInterval, "cachepolicy-push-interval", policy.DefaultInterval, "Time after which policies are pushed although nothing has changed; 0 or less is the default.")
}

// cacheServerClients are clients of the endpoints, each with its own token.
type cacheServerClients struct {
	snapshot, policy *cacheserver.Client
	// prober is nil when the probe gate is off.
	prober cachebackend.Prober
}

func (o *cacheServerOptions) clients() (*cacheServerClients, error) {
	var clients cacheServerClients
	var err error
	if clients.snapshot, err = o.client(o.snapshotURL, o.tokenFile); err != nil {
		return nil, fmt.Errorf("--server-snapshot-url: %w", err)
	}
	if clients.policy, err = o.client(o.policyURL, o.policyTokenFile); err != nil {
		return nil, fmt.Errorf("--server-policy-url: %w", err)
	}
	if o.probeURL != "" {
		if clients.prober, err = o.client(o.probeURL, o.tokenFile); err != nil {
			return nil, fmt.Errorf("--server-probe-url: %w", err)
		}
	}
	return &clients, nil
}

func (o *cacheServerOptions) client(url, tokenFile string) (*cacheserver.Client, error) {
	if url == "" {
		return nil, errors.New("a URL is required")
	}
	return cacheserver.New(cacheserver.Target{URL: url, TokenFile: tokenFile, CAFile: o.caFile, ServerName: o.serverName})
}
