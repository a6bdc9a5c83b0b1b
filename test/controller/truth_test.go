// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// upToNow returns the versions of the backend up to the present one.
func (s *subject) upToNow(h *history) []*v1alpha1.CacheBackend {
	s.Helper()
	var versions []*v1alpha1.CacheBackend
	now := s.backend().ResourceVersion
	eventually(s.T, "the watch has caught up", func(context.Context) error {
		versions = h.all()
		if !slices.ContainsFunc(versions, func(b *v1alpha1.CacheBackend) bool { return b.ResourceVersion == now }) {
			return fmt.Errorf("version %s is not among %d", now, len(versions))
		}
		return nil
	})
	return versions
}

// tells are the states of a backend that an event tells about when it is entered.
var tells = map[string]func(*v1alpha1.CacheBackendStatus) bool{
	v1alpha1.EventAwaitingFirstKVEvent: conditionIs(
		v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstKVEvent),
	v1alpha1.EventNoKVEventsObserved: conditionIs(
		v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNoKVEventsObserved),
	v1alpha1.EventBackendDegraded: conditionIs(
		v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonReplicasUnavailable),
	v1alpha1.EventEngineSelectorUnmatched: func(s *v1alpha1.CacheBackendStatus) bool { return s.EngineSelectorMessage != "" },
	v1alpha1.EventKVEventsObserved:        func(s *v1alpha1.CacheBackendStatus) bool { return s.FirstKVEventObservedAt != nil },
	v1alpha1.EventFailClosedEnabled:       func(s *v1alpha1.CacheBackendStatus) bool { return s.FailOpen != nil && !*s.FailOpen },
}

func conditionIs(conditionType string, status metav1.ConditionStatus, reason string) func(*v1alpha1.CacheBackendStatus) bool {
	return func(s *v1alpha1.CacheBackendStatus) bool {
		condition := apimeta.FindStatusCondition(s.Conditions, conditionType)
		return condition != nil && condition.Status == status && condition.Reason == reason
	}
}

// entered counts how often the backend was stored in a state that it was not in before.
func entered(versions []*v1alpha1.CacheBackend, holds func(*v1alpha1.CacheBackendStatus) bool) int {
	count, before := 0, false
	for _, version := range versions {
		now := holds(&version.Status)
		if now && !before {
			count++
		}
		before = now
	}
	return count
}

// expectTruthfulEvents demands that each event was told about a transition that was stored, and once. A process that ends
// between the write of a status and that of the event leaves the transition untold: an event is a hint, and the status
// that would tell the next process about it is the one that was just written.
func (s *subject) expectTruthfulEvents(h *history) {
	s.Helper()
	versions := s.upToNow(h)
	told := s.told()
	for reason, count := range told {
		holds, known := tells[reason]
		if !known {
			s.Errorf("the event %s is told, which is not expected here", reason)
			continue
		}
		if transitions := entered(versions, holds); count > transitions {
			s.Errorf("%s is told %d times, the stored status has entered that state %d times", reason, count, transitions)
		}
	}
}

// told counts the events about the backend by their reasons.
func (s *subject) told() map[string]int {
	s.Helper()
	list, err := env.kube.EventsV1().Events(s.namespace).List(s.Context(), metav1.ListOptions{})
	must(s.T, err)
	uid := s.backend().UID
	told := map[string]int{}
	for _, event := range list.Items {
		if event.Regarding.UID != uid {
			continue
		}
		told[event.Reason]++
		if event.Series != nil {
			told[event.Reason] += int(event.Series.Count) - 1
		}
	}
	return told
}

// snapshot is the backend with its objects as far as they do not differ from one run of a story to the next.
func (s *subject) snapshot(ctx context.Context) (string, error) {
	backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	objects := map[string]runtime.Object{"CacheBackend": backend}
	for _, kind := range []string{"Deployment", "StatefulSet", "Service", "HorizontalPodAutoscaler"} {
		object, err := s.read(ctx, kind)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		objects[kind] = object.(runtime.Object)
	}
	parts := map[string]any{}
	for kind, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return "", err
		}
		if kind != "CacheBackend" { // Other controllers' words about our objects.
			delete(content, "status")
		}
		parts[kind] = scrub(content)
	}
	data, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	data, err = yaml.JSONToYAML([]byte(strings.ReplaceAll(string(data), s.namespace, "NAMESPACE")))
	return string(data), err
}

// scrub takes out what each run has its own of.
func scrub(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			switch key {
			case "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "lastTransitionTime", "clusterIPs":
				delete(value, key)
			case "firstAvailableAt", "firstKVEventObservedAt", "lastEventAt", "observedServerInstance":
				value[key] = "set"
			case "clusterIP":
				if value[key] != "None" {
					value[key] = "set"
				}
			default:
				value[key] = scrub(value[key])
			}
		}
	case []any:
		for i := range value {
			value[i] = scrub(value[i])
		}
	}
	return value
}
