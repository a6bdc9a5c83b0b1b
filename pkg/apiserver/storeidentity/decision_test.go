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
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := decide(tc.store, tc.cluster); got != tc.want {
				t.Errorf("decide(%+v, %+v) is %s, want %s", tc.store, tc.cluster, got, tc.want)
			}
		})
	}
}
