// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// lookupTimeout bounds the read of the backends, within the budget of the whole review: a
// pod that is admitted unwired is better than one that waits for nothing.
const lookupTimeout = time.Second

// Backends reads the CacheBackends of one namespace as they are at this moment. A pod is
// created once: a backend that was ready a millisecond ago must be seen.
type Backends interface {
	InNamespace(ctx context.Context, namespace string) ([]inferencecache.CacheBackend, error)
}

// Decider decides about pods.
type Decider struct {
	Backends   Backends
	Subscriber engine.Subscriber
}

// Decide returns what is to become of a pod that is created in a namespace. The pod is not
// changed.
func (d *Decider) Decide(ctx context.Context, pod *corev1.Pod, namespace string) Decision {
	if engine.OptsOut(pod.Annotations) {
		return Decision{Outcome: Skipped, Reason: ReasonSkipped, Pod: markSkipped(pod),
			Message: "the pod asks to be left alone by its annotation inferencecache.io/skip-inject"}
	}
	if pod.Namespace != "" {
		namespace = pod.Namespace
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	backends, err := d.Backends.InNamespace(ctx, namespace)
	if err != nil {
		refused := refuse(ReasonLookupFailed, "lookup failed: reading the backends of namespace %s: %v", namespace, err)
		refused.warning = "lookup failed: the CacheBackends cannot be read at the moment; recreate the pod later if it is to have a cache"
		return unwired(pod, nil, refused)
	}
	matched := match(backends, pod.Labels)
	if len(matched) == 0 {
		return unwired(pod, nil, refuse(ReasonNoMatch, "no matching CacheBackend in namespace %s", namespace))
	}
	decision := d.wire(pod, matched[0])
	if len(matched) > 1 {
		decision.Warnings = append(decision.Warnings, ambiguous(matched))
	}
	return decision
}

// wire applies the chosen backend. When it turns out to be unusable no other is tried:
// the pod would silently be part of another cache.
func (d *Decider) wire(pod *corev1.Pod, backend *inferencecache.CacheBackend) Decision {
	adapter, bound, refused := bind(backend)
	if refused != nil {
		return unwired(pod, backend, refused)
	}
	wired, err := engine.Wire(adapter, pod, wiringOf(backend, bound), d.Subscriber)
	switch {
	case errors.Is(err, engine.ErrNothingToWire):
		return unwired(pod, backend, refuse(ReasonEventsOnlyUnwired, "%v (backend %s)", err, key(backend)))
	case err != nil:
		return unwired(pod, backend, refuse(ReasonAdapterRejected, "%v (backend %s)", err, key(backend)))
	}
	stamp(wired, backend)
	return Decision{Outcome: Wired, Reason: ReasonWired, Backend: key(backend), Pod: wired,
		Message: fmt.Sprintf("wired to %s by %s", key(backend), adapter.Name())}
}

// unwired admits the pod as it was received, without marks of an earlier life. The pod is
// nil when it cannot be read, the backend when none was chosen.
func unwired(pod *corev1.Pod, backend *inferencecache.CacheBackend, refused *refusal) Decision {
	decision := Decision{Outcome: Unwired, Reason: refused.reason, Message: refused.message}
	if pod != nil {
		decision.Pod = strip(pod)
	}
	if backend != nil {
		decision.Backend = key(backend)
	}
	if decision.failedOpen() {
		decision.Warnings = []string{"not wired to a cache: " + refused.warning}
	}
	return decision
}

func ambiguous(matched []*inferencecache.CacheBackend) string {
	others := make([]string, 0, len(matched)-1)
	for _, backend := range matched[1:] {
		others = append(others, backend.Name)
	}
	return fmt.Sprintf("several CacheBackends select this pod: %s is taken as the first by name, not %s",
		matched[0].Name, strings.Join(others, ", "))
}
