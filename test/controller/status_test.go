// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// doorLabel begins the name of the label of the nodes that the pods of a held backend may run on. The backend's
// namespace ends it.
const doorLabel = "example.com/door"

// held keeps the pods of a backend from being scheduled while there is no node for them: until open, and after close.
func (s *subject) held(b *v1alpha1.CacheBackend) {
	b.Spec.Template = &v1alpha1.PodTemplateOverrides{NodeSelector: map[string]string{doorLabel + "-" + s.namespace: "open"}}
}

func (s *subject) open()  { s.labelNode("=open") }
func (s *subject) close() { s.labelNode("-") }

func (s *subject) labelNode(operation string) {
	s.Helper()
	nodes, err := env.kube.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{Limit: 1})
	must(s.T, err)
	s.kubectl("label", "node", nodes.Items[0].Name, doorLabel+"-"+s.namespace+operation)
}

// patchStatus writes a part of the status as the poller or an administrator does.
func (s *subject) patchStatus(fields map[string]any) {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"status": fields})
	must(s.T, err)
	_, err = s.backends().Patch(s.Context(), s.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must(s.T, err)
}

// serverPod waits until there is one pod of the tier, and returns it.
func (s *subject) serverPod(ready func(*corev1.Pod) error) *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	selector := labels.SelectorFromSet(storage.SelectorLabels(s.name)).String()
	eventually(s.T, "there is the tier's pod", func(ctx context.Context) error {
		pods, err := env.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		pod = &pods.Items[0]
		return ready(pod)
	})
	return pod
}

// started says whether a pod has run long enough to count as one that has served.
func started(pod *corev1.Pod) error {
	if start := pod.Status.StartTime; start == nil || time.Since(start.Time) < 4*time.Second {
		return errors.New("it is too young")
	}
	return nil
}

func TestKVGate(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	h := s.record()
	s.create(waitsForKVEvents)
	backend := s.waitState(awaiting)
	if backend.Status.FirstAvailableAt == nil || backend.Status.FirstKVEventObservedAt != nil {
		t.Errorf("the status is %+v", backend.Status)
	}
	s.waitEvents(v1alpha1.EventAwaitingFirstKVEvent)

	s.seesKVEvent()
	if s.waitState(working).Status.FirstKVEventObservedAt == nil {
		t.Error("that there was an event is not remembered")
	}
	s.waitEvents(v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventKVEventsObserved)

	// The engines go, and their events with them.
	s.patchStatus(map[string]any{"indexParticipation": map[string]any{"prefixCount": 0, "lastEventAt": nil}})
	s.endsWithEvents(v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventKVEventsObserved)
	s.waitState(working)
	s.expect(h, "", rollingOut, awaiting, working)
}

// TestEventsBeforeTheTier: engines may be at work before the tier is up. Nothing is waited for then.
func TestEventsBeforeTheTier(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	h := s.record()
	s.create(waitsForKVEvents, s.held)
	s.waitState(rollingOut)
	s.seesKVEvent()
	s.waitEvents(v1alpha1.EventKVEventsObserved)
	s.open()
	s.waitState(working)
	s.expect(h, "", rollingOut, working)
	s.endsWithEvents(v1alpha1.EventKVEventsObserved)
}

// TestNoKVEvents: a backend that has waited too long is broken until an event comes. More time does not mend it.
func TestNoKVEvents(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	h := s.record()
	s.create(waitsForKVEvents, firstEventTimeout(time.Minute))
	s.waitState(awaiting)
	s.patchStatus(map[string]any{"firstAvailableAt": metav1.NewTime(time.Now().Add(-10 * time.Minute))})
	before := message(s.waitState(silent), v1alpha1.ConditionReady)
	if !strings.Contains(before, "1m0s") {
		t.Errorf("the message does not tell the time: %q", before)
	}
	s.waitEvents(v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventNoKVEventsObserved)

	s.edit(firstEventTimeout(time.Hour))
	if after := message(s.waitState(silent), v1alpha1.ConditionReady); after != before {
		t.Errorf("with more time the message is %q, it was %q", after, before)
	}
	s.seesKVEvent()
	s.waitState(working)
	s.expect(h, "", rollingOut, awaiting, silent, working)
	s.endsWithEvents(v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventNoKVEventsObserved, v1alpha1.EventKVEventsObserved)
}

func firstEventTimeout(timeout time.Duration) change {
	return func(b *v1alpha1.CacheBackend) {
		b.Spec.Observation = &v1alpha1.ObservationSpec{FirstEventTimeout: &metav1.Duration{Duration: timeout}}
	}
}

// TestOnlyFalseOptsOut: any other value of the annotation leaves the gate on.
func TestOnlyFalseOptsOut(t *testing.T) {
	t.Parallel()
	s := create(t, func(b *v1alpha1.CacheBackend) { b.Annotations[v1alpha1.AnnotationRequireKVEvents] = "False" })
	s.waitState(awaiting)
	s.kubectl("annotate", "cachebackend", s.name, "--overwrite", v1alpha1.AnnotationRequireKVEvents+"=false")
	s.waitState(up)
}

func TestServerBreaks(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			h := s.record()
			s.create(waitsForKVEvents, deploymentKind(kind))
			s.waitState(awaiting)
			s.seesKVEvent()
			s.waitState(working)
			pod := s.serverPod(started)
			const crashLoop = "fake.inferencecache.io/crash-loop.lmcache-server"
			s.kubectl("annotate", "pod", pod.Name, crashLoop+"=true")
			if got := message(s.waitState(short), v1alpha1.ConditionReady); !strings.Contains(got, "0/1 replicas available") {
				t.Errorf("Ready says %q", got)
			}
			told := []string{v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventKVEventsObserved, v1alpha1.EventBackendDegraded}
			s.waitEvents(told...)
			s.kubectl("annotate", "pod", pod.Name, crashLoop+"-")
			s.waitState(working)
			s.expect(h, "", rollingOut, awaiting, working, short, working)
			s.endsWithEvents(append(told, v1alpha1.EventBackendRecovered)...)
		})
	}
}

// TestRollout: while a new image rolls out the backend is not Ready, even when the old pod still serves, and not broken,
// even when no pod serves.
func TestRollout(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	h := s.record()
	s.create()
	s.waitState(up)
	s.edit(s.held, func(b *v1alpha1.CacheBackend) {
		b.Spec.RemoteStorage.LMCacheServer = &v1alpha1.LMCacheServerSpec{Image: "example.com/lmcache:next"}
	})
	s.kubectl("wait", "deployment", s.name, "--for=jsonpath={.status.updatedReplicas}=1", "--timeout=2m")
	s.kubectl("wait", "deployment", s.name, "--for=jsonpath={.status.replicas}=2", "--timeout=2m")
	s.waitState(rollingOut)
	s.open()
	s.waitState(up)
	s.expect(h, "", rollingOut, up, rollingOut, up)
	s.endsWithEvents()
}

// TestFirstStart: a tier whose pods are there and have never been up is no broken one.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			h := s.record()
			s.create(deploymentKind(kind), s.held)
			s.serverPod(func(*corev1.Pod) error { return nil })
			s.kubectl("wait", string(kind), s.name, "--for=jsonpath={.status.updatedReplicas}=1", "--timeout=2m")
			s.waitState(rollingOut)
			s.open()
			s.waitState(up)
			s.expect(h, "", rollingOut, up)
			s.endsWithEvents()
		})
	}
}

func TestFailClosed(t *testing.T) {
	t.Parallel()
	s := create(t, failOpenIs(false))
	if failOpen := s.waitState(up).Status.FailOpen; failOpen == nil || *failOpen {
		t.Error("the status says that engines serve without the cache")
	}
	s.waitEvents(v1alpha1.EventFailClosedEnabled)
	s.edit(failOpenIs(true))
	if failOpen := s.waitState(up).Status.FailOpen; failOpen == nil || !*failOpen {
		t.Error("the status says that engines do not serve without the cache")
	}
	s.waitEvents(v1alpha1.EventFailClosedEnabled, v1alpha1.EventFailOpenRestored)
}
