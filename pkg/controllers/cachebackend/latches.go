// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import "inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"

// latchFirstKVEvent remembers that a KV event was ever seen. What the index holds is a
// present view, which is empty again once the engines are gone, so the gate must not depend
// on it alone. What is stored is the time of the observation; the event may be older.
func (p *pass) latchFirstKVEvent() {
	if p.next.FirstKVEventObservedAt == nil && kvEventsNow(p.stored) {
		p.next.FirstKVEventObservedAt = new(p.timestamp())
	}
}

// latchFirstAvailable starts the time for the first KV event. Flaps, rollouts and a
// workload that is made anew do not start it again.
func (p *pass) latchFirstAvailable() {
	if p.next.FirstAvailableAt == nil {
		p.next.FirstAvailableAt = new(p.timestamp())
	}
}

// kvEventsNow says whether the index holds KV events of the backend's engines.
func kvEventsNow(status *v1alpha1.CacheBackendStatus) bool {
	participation := status.IndexParticipation
	return participation != nil && !participation.LastEventAt.IsZero()
}

// servesTier says whether a status is that of a backend with a remote tier. A backend that
// has none is known thereby to have had one until this pass; when its tier was up does not
// count for what comes now.
func servesTier(status *v1alpha1.CacheBackendStatus) bool {
	return status.Endpoint != "" || status.ObservedServerInstance != ""
}

// gotTier says whether this pass of a managed backend is the first since it had no remote
// tier: its time counts already, from when there was none. It is so in the pass that
// publishes the endpoint, and thereby only once; while the Service is held up the time
// must not start again in every pass.
func gotTier(stored *v1alpha1.CacheBackendStatus, endpoint string) bool {
	return stored.FirstAvailableAt != nil && !servesTier(stored) && endpoint != ""
}
