// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cluster"
)

// StartAPIServer starts the API server on the cluster's own etcd, where tests can put objects that admission refuses.
func (e *environment) StartAPIServer() error {
	store, err := e.Store(context.Background())
	if err != nil {
		return err
	}
	return e.Cluster.StartAPIServer(store.APIServerArgs()...)
}

// store changes the backend behind the API server's back: as a version with other rules may have left it. The generation
// goes up, as it does with every change of a spec.
func (s *subject) store(changes ...change) {
	s.Helper()
	store, err := env.Store(s.Context())
	must(s.T, err)
	client, err := store.Client()
	must(s.T, err)
	defer client.Close()

	key := path.Join(cluster.StorePrefix, v1alpha1.GroupName, "cachebackends", s.namespace, s.name)
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
