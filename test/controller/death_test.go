// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

var errDead = errors.New("the process is dead")

// death is the end of a process at one of its writes. To the rest of the world that is a connection on which nothing
// comes any more, whatever the process does until it is gone.
type death struct {
	// delivered says that the last write still arrives, and its answer does not.
	delivered bool
	// came is closed when the process is dead.
	came chan struct{}

	mu    sync.Mutex
	left  int
	dying bool
}

// deathAt is a death at a write, counted from zero.
func deathAt(write int, delivered bool) *death {
	return &death{left: write, delivered: delivered, came: make(chan struct{})}
}

func (d *death) handle(call *call, send sender) (*http.Response, error) {
	last, dead := d.at(call)
	switch {
	case dead && call.what == "create events":
		// It was told before, so that it may still arrive.
		return send(call.Request)
	case dead:
		return nil, errDead
	case !last:
		return send(call.Request)
	}
	defer close(d.came)
	if d.delivered {
		if response, err := send(call.Request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	return nil, errDead
}

// at says whether a call is the last one, and whether it comes after that.
func (d *death) at(call *call) (last, dead bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dying || !isWrite(call.what) {
		return false, d.dying
	}
	d.dying = d.left == 0
	d.left--
	return d.dying, false
}

// story is something that happens to a backend, and how it ends.
type story struct {
	name string
	// before brings the backend to where the story begins. Without it there is no backend yet.
	before func(*subject)
	// act is what happens. The controller does the rest.
	act func(*subject)
	// status and reason are those of Ready at the end.
	status  metav1.ConditionStatus
	reason  string
	objects []string
	events  []string
	// long stories are told in long runs only.
	long bool
}

func (s *story) waitEnd(on *subject) {
	on.Helper()
	on.waitReady(s.status, s.reason)
	on.waitObjects(s.objects...)
}

func ready(changes ...change) func(*subject) {
	return func(s *subject) {
		s.create(changes...)
		s.waitBackendReady()
	}
}

func creates(changes ...change) func(*subject) {
	return func(s *subject) { s.create(changes...) }
}

func edits(changes ...change) func(*subject) {
	return func(s *subject) { s.edit(changes...) }
}

// stories has each kind of change that takes the controller more than one write.
func stories() []story {
	all := []story{{
		name: "a change of the spec that is rolled out", before: ready(),
		act: edits(func(b *v1alpha1.CacheBackend) {
			b.Spec.RemoteStorage.LMCacheServer = &v1alpha1.LMCacheServerSpec{Image: "example.com/lmcache:v2"}
			b.Spec.Replicas = new(int32(2))
		}),
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonBackendReady, objects: []string{"Deployment", "Service"},
	}, {
		name: "from managed to external", before: ready(autoscaled(1, 2)),
		act:    edits(withoutAutoscaling, external(v1alpha1.StorageProviderLMCacheServer, "lm://cache.example.com:8200")),
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonExternalEndpointAccepted,
	}, {
		name: "from managed to events only", before: ready(), act: edits(eventsOnly),
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonEventsOnlyActive,
	}, {
		name: "a change of the provider that replaces the Service", before: ready(),
		act:    edits(provider(v1alpha1.StorageProviderMooncake)),
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonBackendReady, objects: []string{"Deployment", "Service"},
	}, {
		name: "a change of the kind", before: ready(), act: edits(deploymentKind("StatefulSet")),
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonBackendReady, objects: []string{"StatefulSet", "Service"},
	}, {
		name: "a change of the kind of what must never be two", before: ready(provider(v1alpha1.StorageProviderRedis)),
		act:    edits(deploymentKind("StatefulSet")),
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonBackendReady, objects: []string{"StatefulSet", "Service"},
	}, {
		name: "the end of autoscaling", before: ready(autoscaled(2, 3)), act: edits(withoutAutoscaling),
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonBackendReady, objects: []string{"Deployment", "Service"},
	}, {
		name: "the first KV event",
		before: func(s *subject) {
			s.create(waitsForKVEvents)
			s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstKVEvent)
			s.waitEvents(v1alpha1.EventAwaitingFirstKVEvent)
		},
		act:    (*subject).seesKVEvent,
		status: metav1.ConditionTrue, reason: v1alpha1.ReasonKVEventsObserved, objects: []string{"Deployment", "Service"},
		events: []string{v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventKVEventsObserved},
	}, {
		name:   "no KV event in time",
		act:    creates(waitsForKVEvents, failOpenIs(false), firstEventTimeout(time.Second)),
		status: metav1.ConditionFalse, reason: v1alpha1.ReasonNoKVEventsObserved, objects: []string{"Deployment", "Service"},
		events: []string{v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventFailClosedEnabled, v1alpha1.EventNoKVEventsObserved},
	}, {
		name: "a replica that breaks", before: readyForAWhile, act: (*subject).breakPods,
		status: metav1.ConditionFalse, reason: v1alpha1.ReasonReplicasUnavailable, objects: []string{"Deployment", "Service"},
		events: []string{v1alpha1.EventBackendDegraded}, long: true,
	}}
	for _, name := range []v1alpha1.StorageProvider{"LMCacheServer", "Redis", "Mooncake"} {
		for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
			all = append(all, story{
				name: fmt.Sprintf("the creation of %s in a %s", name, kind), act: creates(provider(name), deploymentKind(kind)),
				status: metav1.ConditionTrue, reason: v1alpha1.ReasonBackendReady, objects: []string{string(kind), "Service"},
				long: name != "LMCacheServer",
			})
		}
	}
	return all
}

func withoutAutoscaling(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling = nil }

// readyForAWhile makes a backend whose pod has been Ready long enough to count as one that has worked.
func readyForAWhile(s *subject) {
	ready()(s)
	eventually(s.T, "the pod has worked for a while", func(ctx context.Context) error {
		pods, err := env.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if age := time.Since(pods.Items[0].CreationTimestamp.Time); age < 5*time.Second {
			return fmt.Errorf("it is %s old", age)
		}
		return nil
	})
}

func (s *subject) breakPods() {
	s.Helper()
	s.kubectl("annotate", "pods", "--all", "fake.inferencecache.io/crash-loop."+s.containerName()+"=true")
}

func (s *subject) containerName() string {
	s.Helper()
	pods, err := env.kube.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{})
	must(s.T, err)
	return pods.Items[0].Spec.Containers[0].Name
}

// TestDeath ends the controller at each of its writes in turn, before the write or before its answer. Whatever the next
// one finds, it must come to what would have been without that, and nothing may be told that is not so or that was told
// before. It starts controllers of its own, and must not run beside other tests.
func TestDeath(t *testing.T) {
	withoutController(t)
	for _, story := range stories() {
		if story.long && !long() {
			continue
		}
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			want, writes := story.undisturbed(t)
			for write := range writes {
				for _, delivered := range []bool{false, true} {
					if !long() && delivered != (write%2 == 1) {
						continue
					}
					t.Run(fmt.Sprintf("at write %d, delivered is %t", write, delivered), func(t *testing.T) {
						t.Parallel()
						story.withDeath(t, write, delivered, want)
					})
				}
			}
		})
	}
}

// undisturbed tells the story to its end, and returns what is there then and the number of writes that it took.
func (s *story) undisturbed(t *testing.T) (end string, writes int) {
	on := newSubject(t)
	p := startProcess(t, on.namespace, pass)
	if s.before != nil {
		s.before(on)
	}
	h := on.record()
	start := p.spoil(pass)
	s.act(on)
	s.waitEnd(on)
	on.waitEvents(s.events...)
	on.expectTruthfulEvents(h)
	for _, what := range p.since(start) {
		if isWrite(what) {
			writes++
		}
	}
	end, err := on.snapshot(t.Context())
	must(t, err)
	return end, writes
}

// withDeath tells the story with a process that dies, and another one after it.
func (s *story) withDeath(t *testing.T, write int, delivered bool, want string) {
	on, death := newSubject(t), deathAt(write, delivered)
	first := startProcess(t, on.namespace, pass)
	if s.before != nil {
		s.before(on)
	}
	h := on.record()
	first.spoil(death.handle)
	s.act(on)
	if !s.waitDeath(on, death, want) {
		if write == 0 {
			t.Error("the story takes no write")
		}
		on.expectTruthfulEvents(h)
		return
	}
	first.stop()
	second := startProcess(t, on.namespace, pass)
	s.waitEnd(on)
	on.waitSnapshot(want)
	second.stop()
	on.expectTruthfulEvents(h)
	on.expectFew(s.events)
}

// waitDeath returns whether the process has died. It has not when the story took fewer writes this time.
func (s *story) waitDeath(on *subject, death *death, want string) (died bool) {
	on.Helper()
	eventually(on.T, "the process is dead or the story at its end", func(ctx context.Context) error {
		select {
		case <-death.came:
			died = true
			return nil
		default:
		}
		got, err := on.snapshot(ctx)
		if err == nil && got != want {
			err = errors.New(cmp.Diff(want, got))
		}
		return err
	})
	return died
}

func (s *subject) waitSnapshot(want string) {
	s.Helper()
	eventually(s.T, "all is as it would have been", func(ctx context.Context) error {
		got, err := s.snapshot(ctx)
		if err == nil && got != want {
			err = errors.New(cmp.Diff(want, got))
		}
		return err
	})
}

// expectFew demands that no event was told more often than it should have been.
func (s *subject) expectFew(reasons []string) {
	s.Helper()
	told := s.told()
	for _, reason := range slices.Sorted(maps.Keys(told)) {
		if told[reason] > 1 || !slices.Contains(reasons, reason) {
			s.Errorf("%s is told %d times, the story has %v", reason, told[reason], reasons)
		}
	}
}
