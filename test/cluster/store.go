// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
)

// StorePrefix is where the keys of an API server begin that runs on Store.
const StorePrefix = "/registry-inferencecache"

// Store is the etcd of the cluster. An API server of ours that runs on it, beside kube-apiserver, lets tests reach what it
// has stored; the embedded one opens itself to its own process only.
type Store struct {
	URL string
	TLS transport.TLSInfo
}

// Store asks kube-apiserver how it connects to its etcd.
func (c *Cluster) Store(ctx context.Context) (*Store, error) {
	flags, err := c.KubeAPIServerFlags(ctx)
	if err != nil {
		return nil, err
	}
	store := &Store{
		URL: strings.Trim(flags["etcd-servers"], "[]"),
		TLS: transport.TLSInfo{TrustedCAFile: flags["etcd-cafile"], CertFile: flags["etcd-certfile"], KeyFile: flags["etcd-keyfile"]},
	}
	if store.URL == "" || store.TLS.CertFile == "" {
		return nil, fmt.Errorf("kube-apiserver does not tell where its etcd is: %v", flags)
	}
	return store, nil
}

// KubeAPIServerFlags are the flags that kube-apiserver runs with.
func (c *Cluster) KubeAPIServerFlags(ctx context.Context) (map[string]string, error) {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	data, err := client.CoreV1().RESTClient().Get().AbsPath("/flagz").
		SetHeader("Accept", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for its flags: %w", err)
	}
	var answer struct {
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("reading kube-apiserver's flags: %w", err)
	}
	return answer.Flags, nil
}

// APIServerArgs make an API server of ours run on the store.
func (s *Store) APIServerArgs() []string {
	return []string{
		"--etcd-servers=" + s.URL, "--etcd-prefix=" + StorePrefix,
		"--etcd-cafile=" + s.TLS.TrustedCAFile, "--etcd-certfile=" + s.TLS.CertFile, "--etcd-keyfile=" + s.TLS.KeyFile,
	}
}

// Client connects to the store.
func (s *Store) Client() (*clientv3.Client, error) {
	config, err := s.TLS.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading etcd's certificates: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.URL}, TLS: config, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return client, nil
}
