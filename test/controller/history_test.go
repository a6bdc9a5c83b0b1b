// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// What a managed backend publishes in the states that tests go through.
const (
	rollingOut  = "Ready=False/RolloutInProgress Progressing=True/RolloutInProgress Degraded=False/NotDegraded"
	awaiting    = "Ready=False/AwaitingFirstKVEvent Progressing=True/AwaitingFirstKVEvent Degraded=False/NotDegraded"
	working     = "Ready=True/KVEventsObserved Progressing=False/Synced Degraded=False/NotDegraded"
	silent      = "Ready=False/NoKVEventsObserved Progressing=False/NoKVEventsObserved Degraded=True/NoKVEventsObserved"
	up          = "Ready=True/BackendReady Progressing=False/Synced Degraded=False/NotDegraded"
	short       = "Ready=False/ReplicasUnavailable Progressing=False/Degraded Degraded=True/ReplicasUnavailable"
	conflicting = "Ready=False/WorkloadConflict Progressing=False/WorkloadConflict Degraded=True/WorkloadConflict"
	atZero      = "Ready=False/ScaledToZero Progressing=False/ScaledToZero Degraded=False/NotDegraded"
)

// state is what the three conditions say that every backend of ours has, empty before there are any.
func state(backend *v1alpha1.CacheBackend) string {
	var said []string
	for _, conditionType := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded} {
		if c := apimeta.FindStatusCondition(backend.Status.Conditions, conditionType); c != nil {
			said = append(said, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
		}
	}
	return strings.Join(said, " ")
}

// history is every state that was ever stored of a backend, however short it lasted.
type history struct {
	mu     sync.Mutex
	stored []*v1alpha1.CacheBackend
}

// record follows the backend from now on. A test that is about a backend's beginning starts it before there is one.
func (s *subject) record() *history {
	s.Helper()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", s.name).String()}
	list, err := s.backends().List(s.Context(), options)
	must(s.T, err)
	options.ResourceVersion = list.ResourceVersion
	watched, err := s.backends().Watch(s.Context(), options)
	must(s.T, err)
	s.Cleanup(watched.Stop)
	h := &history{}
	for i := range list.Items {
		h.stored = append(h.stored, &list.Items[i])
	}
	go func() {
		for event := range watched.ResultChan() {
			if backend, ok := event.Object.(*v1alpha1.CacheBackend); ok {
				h.mu.Lock()
				h.stored = append(h.stored, backend)
				h.mu.Unlock()
			}
		}
	}()
	return h
}

func (h *history) all() []*v1alpha1.CacheBackend {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.stored)
}

// states are the states in their order, each once for as long as it lasted.
func (h *history) states() []string {
	var states []string
	for _, backend := range h.all() {
		states = append(states, state(backend))
	}
	return slices.Compact(states)
}

// expect waits until exactly these states, and no others in between, have been stored.
func (s *subject) expect(h *history, want ...string) {
	s.Helper()
	eventually(s.T, "the history is complete", func(context.Context) error {
		got := h.states()
		if !slices.Equal(got, want) {
			return fmt.Errorf("the states were\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		return nil
	})
}

// waitState waits until the backend's present generation is in a state, and returns the backend.
func (s *subject) waitState(want string) *v1alpha1.CacheBackend {
	s.Helper()
	var backend *v1alpha1.CacheBackend
	eventually(s.T, "the state is "+want, func(ctx context.Context) (err error) {
		if backend, err = s.backends().Get(ctx, s.name, metav1.GetOptions{}); err != nil {
			return err
		}
		if got := state(backend); got != want {
			return fmt.Errorf("it is %s (%+v)", got, backend.Status)
		}
		if backend.Status.ObservedGeneration != backend.Generation {
			return fmt.Errorf("generation %d is observed, not %d", backend.Status.ObservedGeneration, backend.Generation)
		}
		return nil
	})
	return backend
}

// message is what a condition says in words.
func message(backend *v1alpha1.CacheBackend, conditionType string) string {
	if c := apimeta.FindStatusCondition(backend.Status.Conditions, conditionType); c != nil {
		return c.Message
	}
	return ""
}
