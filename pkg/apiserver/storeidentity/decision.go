// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

// storeRecord is the identity as the store has it.
type storeRecord struct {
	// ID is empty if the store has none.
	ID string `json:"id"`
	// Pending marks an id that was given to a store which was refused: it has a name, so that consent can be given to
	// this very store, but it has never served.
	Pending bool `json:"pending,omitempty"`
}

// clusterRecord is the identity as the cluster's ConfigMap has it.
type clusterRecord struct {
	// ID is empty if there is no ConfigMap, or none with an id.
	ID string
	// Accepted is the id of the store that an operator has consented to.
	Accepted string
}

// action is the one step that follows from two records.
type action string

const (
	// actionCreate gives the store an id: a first installation. The cluster learns it next, by actionRecord. In the other
	// order a crash in between would leave a cluster that knows an id which no store has.
	actionCreate action = "create"
	// actionRecord writes the store's id to the cluster.
	actionRecord action = "record"
	// actionServe is the end: both agree.
	actionServe action = "serve"
	// actionSettle makes a pending id final, now that both agree.
	actionSettle action = "settle"
	// actionAccept makes the store's id the cluster's, because an operator said so.
	actionAccept action = "accept"
	// actionName gives a refused store without an id a pending one.
	actionName action = "name"
	// actionRefuse waits for somebody to mount the right store or to accept this one.
	actionRefuse action = "refuse"
)

// decide says what to do next. It is a function of what both sides say now, so that each step can fail, be done by
// another replica, or be the last before a crash, and evaluating anew is always right.
func decide(store storeRecord, cluster clusterRecord) action {
	switch {
	case store.ID == "" && cluster.ID == "":
		return actionCreate
	case store.ID == "":
		return actionName
	case store.ID == cluster.ID && store.Pending:
		return actionSettle
	case store.ID == cluster.ID:
		return actionServe
	case store.ID == cluster.Accepted:
		return actionAccept
	case cluster.ID == "" && !store.Pending:
		return actionRecord
	default:
		// A pending store stays refused when the ConfigMap is deleted: it was another's place, and deleting is no consent.
		return actionRefuse
	}
}
