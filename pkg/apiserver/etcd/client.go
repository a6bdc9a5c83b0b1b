// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	dialTimeout      = 20 * time.Second
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	// maxReconnectDelay keeps an etcd that is back from being overlooked for two minutes, which is gRPC's default.
	maxReconnectDelay = 5 * time.Second
)

// ClientOptions says how to reach an etcd, embedded or not. They are the flags with which the API server reaches its own.
type ClientOptions struct {
	Endpoints []string
	// CertFile and KeyFile are this client's identity, TrustedCAFile is who signs etcd's. All empty: no TLS.
	CertFile, KeyFile, TrustedCAFile string
}

// NewClient makes a client for those who need etcd beside the API server's storage, which keeps its client to itself.
// It does not wait for a connection.
func NewClient(o ClientOptions) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:            o.Endpoints,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		Logger:               zap.NewNop(), // its errors come back from the calls
	}
	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = maxReconnectDelay
	cfg.DialOptions = []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect})}
	if o.CertFile != "" || o.KeyFile != "" || o.TrustedCAFile != "" {
		tls := transport.TLSInfo{CertFile: o.CertFile, KeyFile: o.KeyFile, TrustedCAFile: o.TrustedCAFile}
		var err error
		if cfg.TLS, err = tls.ClientConfig(); err != nil {
			return nil, fmt.Errorf("reading the certificates for etcd: %w", err)
		}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("making an etcd client: %w", err)
	}
	return client, nil
}
