// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// etcdPrefix is where our keys begin in the etcd that we share with kube-apiserver.
const etcdPrefix = "/registry-inferencecache"

// StartAPIServer starts the API server on the cluster's own etcd, where tests can put objects that admission refuses. The
// embedded one opens itself to its own process only.
func (e *environment) StartAPIServer() error {
	config, err := e.etcdConfig(context.Background())
	if err != nil {
		return err
	}
	return e.Cluster.StartAPIServer("--etcd-servers="+config.url, "--etcd-prefix="+etcdPrefix,
		"--etcd-cafile="+config.tls.TrustedCAFile, "--etcd-certfile="+config.tls.CertFile, "--etcd-keyfile="+config.tls.KeyFile)
}

// etcdConfig says how to connect to the cluster's etcd.
type etcdConfig struct {
	url string
	tls transport.TLSInfo
}

// etcdConfig asks kube-apiserver how it connects to its own etcd.
func (e *environment) etcdConfig(ctx context.Context) (*etcdConfig, error) {
	data, err := e.kube.CoreV1().RESTClient().Get().AbsPath("/flagz").
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
	return &etcdConfig{
		url: strings.Trim(answer.Flags["etcd-servers"], "[]"),
		tls: transport.TLSInfo{
			TrustedCAFile: answer.Flags["etcd-cafile"], CertFile: answer.Flags["etcd-certfile"], KeyFile: answer.Flags["etcd-keyfile"],
		},
	}, nil
}

// store changes the backend behind the API server's back: as a version with other rules may have left it. The generation
// goes up, as it does with every change of a spec.
func (s *subject) store(changes ...change) {
	s.Helper()
	config, err := env.etcdConfig(s.Context())
	must(s.T, err)
	tls, err := config.tls.ClientConfig()
	must(s.T, err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{config.url}, TLS: tls, Logger: zap.NewNop()})
	must(s.T, err)
	defer client.Close()

	key := path.Join(etcdPrefix, v1alpha1.GroupName, "cachebackends", s.namespace, s.name)
	eventually(s.T, "the backend is stored", func(ctx context.Context) error {
		stored, err := client.Get(ctx, key)
		if err != nil {
			return err
		}
		if len(stored.Kvs) != 1 {
			return fmt.Errorf("there are %d values under %s", len(stored.Kvs), key)
		}
		var backend v1alpha1.CacheBackend
		if err := json.Unmarshal(stored.Kvs[0].Value, &backend); err != nil {
			return err
		}
		for _, change := range changes {
			change(&backend)
		}
		backend.Generation++
		value, err := json.Marshal(backend)
		if err != nil {
			return err
		}
		unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", stored.Kvs[0].ModRevision)
		written, err := client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(key, string(value))).Commit()
		if err == nil && !written.Succeeded {
			err = fmt.Errorf("%s has changed meanwhile", key)
		}
		return err
	})
}
