// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// defaultFirstEventTimeout holds where the spec has no usable timeout.
const defaultFirstEventTimeout = 5 * time.Minute

// kvGate is what decides whether a backend that is up also has the ear of its engines.
type kvGate struct {
	// base says whether the backend is up.
	base verdict
	// optedOut says that the gate does not apply to this backend.
	optedOut bool
	// seen says that a KV event was observed, now or ever.
	seen bool
	// breach is the stored condition that says that no event came in time. It is nil when
	// there is none, or when it is about a window that is no longer this one.
	breach *metav1.Condition
	// anchor is when the time for the first event began.
	anchor  time.Time
	timeout time.Duration
	now     time.Time
}

// kvVerdict is what the gate makes of a backend.
type kvVerdict struct {
	ready verdict
	// degraded says whether the backend is stuck, for the reason and with the message of
	// ready. Later gates lower Ready without touching this.
	degraded bool
	// deadline is in how much time the verdict changes by itself; zero when it does not.
	deadline time.Duration
}

// judge applies the gate; the first case that holds counts. A verdict that no event came in
// time stands until one comes: a longer timeout does not take it back.
func (g kvGate) judge() kvVerdict {
	elapsed := g.now.Sub(g.anchor)
	switch {
	case !g.base.ready:
		stuck := g.base.reason == v1alpha1.ReasonReplicasUnavailable || g.base.reason == v1alpha1.ReasonWorkloadConflict
		return kvVerdict{ready: g.base, degraded: stuck}
	case g.optedOut:
		return kvVerdict{ready: g.base}
	case g.seen:
		return kvVerdict{ready: verdict{ready: true, reason: v1alpha1.ReasonKVEventsObserved,
			message: "KV events of the engine pods have been observed."}}
	case g.breach != nil:
		return kvVerdict{ready: notReady(v1alpha1.ReasonNoKVEventsObserved, "%s", g.breach.Message), degraded: true}
	case elapsed < g.timeout:
		return kvVerdict{
			ready: notReady(v1alpha1.ReasonAwaitingFirstKVEvent,
				"Waiting up to %s for the first KV event of the engine pods.", g.timeout),
			deadline: g.timeout - elapsed,
		}
	default:
		return kvVerdict{
			ready: notReady(v1alpha1.ReasonNoKVEventsObserved,
				"No KV event was observed within %s; check that engine pods are attached to this backend, "+
					"then their --kv-events-config and that its socket is bound.", g.timeout),
			degraded: true,
		}
	}
}

// storedBreach is the stored condition that says that no KV event came in time, nil when
// there is none. Degraded still says so when another gate has taken Ready over.
func storedBreach(stored *v1alpha1.CacheBackendStatus) *metav1.Condition {
	degraded := find(stored, v1alpha1.ConditionDegraded)
	if is(degraded, metav1.ConditionTrue, v1alpha1.ReasonNoKVEventsObserved) {
		return degraded
	}
	ready := find(stored, v1alpha1.ConditionReady)
	if is(ready, metav1.ConditionFalse, v1alpha1.ReasonNoKVEventsObserved) {
		return ready
	}
	return nil
}

func firstEventTimeout(backend *v1alpha1.CacheBackend) time.Duration {
	observation := backend.Spec.Observation
	if observation == nil || observation.FirstEventTimeout == nil || observation.FirstEventTimeout.Duration <= 0 {
		return defaultFirstEventTimeout
	}
	return observation.FirstEventTimeout.Duration
}
