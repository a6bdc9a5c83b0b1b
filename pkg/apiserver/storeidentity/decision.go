// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import "fmt"

// storeRecord is the identity as the store has it.
type storeRecord struct {
	// ID is empty if the store has none.
	ID string `json:"id"`
	// Pending marks an id that was given to a store which was refused: it has a name, so that consent can be given to
	// this very store, but it has never served.
	Pending bool `json:"pending,omitempty"`
	// Epoch grows while the store is served, so that an older copy of it is known by its lower one. Stores from before
	// there were epochs have 0.
	Epoch uint64 `json:"epoch,omitempty"`
}

// state names the store as it is now, which a later consent must repeat to the letter.
func (s storeRecord) state() string {
	return fmt.Sprintf("%s@%d", s.ID, s.Epoch)
}

// isBehind says that the cluster has seen this very store in a later state.
func (s storeRecord) isBehind(cluster clusterRecord) bool {
	return s.ID == cluster.ID && s.Epoch < cluster.Epoch
}

// clusterRecord is the identity as the cluster's ConfigMap has it.
type clusterRecord struct {
	// ID is empty if there is no ConfigMap, or none with an id.
	ID string
	// Epoch is the latest that was seen of the store with that id, 0 if none was.
	Epoch uint64
	// Accepted is what an operator has consented to: another store by its id, or one state of a store as id@epoch.
	Accepted string
}

// accepts says whether the consent is for this store. An id alone is not enough for an older state of the known store:
// every copy of it has that id, and who accepts one has seen how old it is.
func (c clusterRecord) accepts(store storeRecord) bool {
	return c.Accepted == store.state() || c.Accepted == store.ID && store.ID != c.ID
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
	// actionAccept makes the store's id and epoch the cluster's, because an operator said so.
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
	case store.isBehind(cluster) && cluster.accepts(store):
		return actionAccept
	case store.isBehind(cluster):
		return actionRefuse
	case store.ID == cluster.ID && store.Pending:
		return actionSettle
	case store.ID == cluster.ID:
		return actionServe
	case cluster.accepts(store):
		return actionAccept
	case cluster.ID == "" && !store.Pending:
		return actionRecord
	default:
		// A pending store stays refused when the ConfigMap is deleted: it was another's place, and deleting is no consent.
		return actionRefuse
	}
}
