// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import "testing"

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		store   storeRecord
		cluster clusterRecord
		want    action
	}{
		{"first installation", storeRecord{}, clusterRecord{}, actionCreate},
		{"consent without any store", storeRecord{}, clusterRecord{Accepted: "b"}, actionCreate},
		{"crash after create", storeRecord{ID: "a"}, clusterRecord{}, actionRecord},
		{"new cluster, old store", storeRecord{ID: "a"}, clusterRecord{Accepted: "b"}, actionRecord},
		{"equal", storeRecord{ID: "a"}, clusterRecord{ID: "a"}, actionServe},
		{"equal, consent left over", storeRecord{ID: "a"}, clusterRecord{ID: "a", Accepted: "a"}, actionServe},
		{"equal, consent to another", storeRecord{ID: "a"}, clusterRecord{ID: "a", Accepted: "b"}, actionServe},
		{"equal, still pending", storeRecord{ID: "a", Pending: true}, clusterRecord{ID: "a"}, actionSettle},
		{"empty store", storeRecord{}, clusterRecord{ID: "a"}, actionName},
		{"empty store, consent to some other", storeRecord{}, clusterRecord{ID: "a", Accepted: "b"}, actionName},
		{"pending store", storeRecord{ID: "b", Pending: true}, clusterRecord{ID: "a"}, actionRefuse},
		{"another store", storeRecord{ID: "b"}, clusterRecord{ID: "a"}, actionRefuse},
		{"another store, consent to a third", storeRecord{ID: "b"}, clusterRecord{ID: "a", Accepted: "c"}, actionRefuse},
		{"another store, consent to the old", storeRecord{ID: "b"}, clusterRecord{ID: "a", Accepted: "a"}, actionRefuse},
		{"pending store, configmap deleted", storeRecord{ID: "b", Pending: true}, clusterRecord{}, actionRefuse},
		{"another store accepted", storeRecord{ID: "b"}, clusterRecord{ID: "a", Accepted: "b"}, actionAccept},
		{"pending store accepted", storeRecord{ID: "b", Pending: true}, clusterRecord{ID: "a", Accepted: "b"}, actionAccept},
		{"pending store accepted, configmap emptied", storeRecord{ID: "b", Pending: true}, clusterRecord{Accepted: "b"}, actionAccept},

		{"same epoch", storeRecord{ID: "a", Epoch: 3}, clusterRecord{ID: "a", Epoch: 3}, actionServe},
		{"store ahead", storeRecord{ID: "a", Epoch: 4}, clusterRecord{ID: "a", Epoch: 3}, actionServe},
		{"store ahead of a cluster without epochs", storeRecord{ID: "a", Epoch: 4}, clusterRecord{ID: "a"}, actionServe},
		{"store behind", storeRecord{ID: "a", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3}, actionRefuse},
		{"store from before epochs", storeRecord{ID: "a"}, clusterRecord{ID: "a", Epoch: 1}, actionRefuse},
		{"pending store behind", storeRecord{ID: "a", Pending: true}, clusterRecord{ID: "a", Epoch: 1}, actionRefuse},
		{"store behind, its state accepted", storeRecord{ID: "a", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3, Accepted: "a@2"}, actionAccept},
		{"store without epochs behind, its state accepted", storeRecord{ID: "a"}, clusterRecord{ID: "a", Epoch: 3, Accepted: "a@0"}, actionAccept},
		{"store behind, an older state accepted", storeRecord{ID: "a", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3, Accepted: "a@1"}, actionRefuse},
		{"store behind, the lost state accepted", storeRecord{ID: "a", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3, Accepted: "a@3"}, actionRefuse},
		{"store behind, its id accepted", storeRecord{ID: "a", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3, Accepted: "a"}, actionRefuse},
		{"store behind, another's state accepted", storeRecord{ID: "a", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3, Accepted: "b@2"}, actionRefuse},
		{"another store with a higher epoch", storeRecord{ID: "b", Epoch: 9}, clusterRecord{ID: "a", Epoch: 3}, actionRefuse},
		{"another store with a lower epoch accepted", storeRecord{ID: "b", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3, Accepted: "b"}, actionAccept},
		{"another store's state accepted", storeRecord{ID: "b", Epoch: 2}, clusterRecord{ID: "a", Epoch: 3, Accepted: "b@2"}, actionAccept},
		{"another store, a former state of it accepted", storeRecord{ID: "b", Epoch: 2}, clusterRecord{ID: "a", Accepted: "b@1"}, actionRefuse},
		{"new cluster, old store with epochs", storeRecord{ID: "a", Epoch: 2}, clusterRecord{}, actionRecord},
		{"emptied id, epoch left", storeRecord{ID: "a", Epoch: 2}, clusterRecord{Epoch: 3}, actionRecord},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := decide(tc.store, tc.cluster); got != tc.want {
				t.Errorf("decide(%+v, %+v) is %s, want %s", tc.store, tc.cluster, got, tc.want)
			}
		})
	}
}
