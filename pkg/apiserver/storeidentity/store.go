// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keyName is below the prefix of all our keys, beside the resources: whoever gives a wrong prefix finds no identity.
const keyName = "inferencecache.io/store-identity"

// store reads and writes the identity in etcd. clientv3.KV's reads are linearizable, and its writes here are
// transactions on what was read, so replicas on one etcd settle their races there.
type store struct {
	kv  clientv3.KV
	key string
}

func newStore(kv clientv3.KV, prefix string) store {
	return store{kv: kv, key: path.Join("/", prefix, keyName)} // the leading slash as the API server's storage adds it
}

// read returns the record and the revision of the key, both zero if there is none.
func (s store) read(ctx context.Context) (storeRecord, int64, error) {
	answer, err := s.kv.Get(ctx, s.key)
	if err != nil {
		return storeRecord{}, 0, fmt.Errorf("reading the store's identity from etcd: %w", err)
	}
	if len(answer.Kvs) == 0 {
		return storeRecord{}, 0, nil
	}
	var record storeRecord
	kv := answer.Kvs[0]
	if err := json.Unmarshal(kv.Value, &record); err != nil {
		return storeRecord{}, 0, fmt.Errorf("decoding the store's identity at key %s: %w", s.key, err)
	}
	if record.ID == "" { // not the same as no key: nobody overwrites what nobody understands
		return storeRecord{}, 0, fmt.Errorf("decoding the store's identity at key %s: no id", s.key)
	}
	return record, kv.ModRevision, nil
}

// write puts the record if the key still is as it was read; else it returns errStale.
func (s store) write(ctx context.Context, record storeRecord, revision int64) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding the store's identity: %w", err)
	}
	answer, err := s.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.key), "=", revision)).
		Then(clientv3.OpPut(s.key, string(value))).
		Commit()
	if err != nil {
		return fmt.Errorf("writing the store's identity to etcd: %w", err)
	}
	if !answer.Succeeded {
		return errStale
	}
	return nil
}

// errStale says that somebody else wrote first: read again and decide again.
var errStale = errors.New("the store's identity was changed by another server")
