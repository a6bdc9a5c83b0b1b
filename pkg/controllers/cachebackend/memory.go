// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// memory is what the process knows of a backend from earlier passes. Nothing is in it that
// must survive the process. Passes over one backend follow one another, so it needs no lock.
type memory struct {
	backend types.UID

	probe    probeMemory
	restarts restartMemory
	// announced are the pods that an event about crash loops has covered, nil before any pod
	// was looked at.
	announced sets.Set[types.UID]
}

// memories holds the memory of every backend.
type memories struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]*memory
}

// of returns the memory of a backend. One that was made anew under its name has none yet.
func (m *memories) of(backend *v1alpha1.CacheBackend) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := client.ObjectKeyFromObject(backend)
	kept, found := m.byName[name]
	if !found || kept.backend != backend.UID {
		if m.byName == nil {
			m.byName = map[types.NamespacedName]*memory{}
		}
		kept = &memory{backend: backend.UID}
		m.byName[name] = kept
	}
	return kept
}

// forget drops the memory of a backend that is gone, and what was counted for it.
func (m *memories) forget(backend types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byName, backend)
	forgetMetrics(backend)
}

// leaveTier is told about a backend that has no tier of ours: when it gets one, nothing
// that was true of an earlier one counts.
func (m *memory) leaveTier() {
	m.probe = probeMemory{}
	m.restarts = restartMemory{baseline: new("")}
}

// seen is told about a list of pods. What crashes while the condition stands that an earlier
// process has published was announced by that one.
func (m *memory) seen(backend *v1alpha1.CacheBackend, view *podView) {
	if m.announced == nil && find(&backend.Status, v1alpha1.ConditionEngineCompatibility) != nil {
		for _, loop := range view.crashLooping {
			view.remaining.Insert(loop.UID)
		}
	}
	m.announced = view.remaining
}

// published is told about a pass over this version of the backend whose status is stored.
func (m *memory) published(backend *v1alpha1.CacheBackend, observation Observation, decision Decision) {
	if decision.Answered {
		m.probe.published(backend)
	}
	if !slices.ContainsFunc(decision.Events, func(event Event) bool { return event.Reason == v1alpha1.EventInjectedEngineCrashLooping }) {
		return
	}
	for _, loop := range observation.Wired.CrashLooping {
		m.announced.Insert(loop.UID)
	}
}
