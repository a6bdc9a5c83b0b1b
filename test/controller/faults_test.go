// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// resourceOf are the resources of a backend's own objects by their kinds.
var resourceOf = map[string]string{
	"Deployment": "deployments", "StatefulSet": "statefulsets",
	"Service": "services", "HorizontalPodAutoscaler": "horizontalpodautoscalers",
}

// step is a change to a backend under faults.
type step struct {
	name string
	act  func(*subject)
	// end is the state that it leads to, by way of these reasons of Ready.
	end string
	by  []string
	// objects are there at the end.
	objects []string
	// deletes are the resources of which an object is to be deleted. All other objects stay.
	deletes []string
	// uses are the requests that the controller makes on the way.
	uses []string
}

// steps make the controller use all that it uses of the API server.
func steps() []step {
	rollout := []string{v1alpha1.ReasonKVEventsObserved, v1alpha1.ReasonRolloutInProgress}
	return []step{{
		name: "the creation",
		act: creates(waitsForKVEvents, autoscaled(1, 2), func(b *v1alpha1.CacheBackend) {
			b.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: map[string]string{"serve": "atlas"}}
		}),
		end: awaiting, by: []string{v1alpha1.ReasonRolloutInProgress, v1alpha1.ReasonAwaitingFirstKVEvent},
		objects: []string{"Deployment", "Service", "HorizontalPodAutoscaler"},
		uses: []string{
			"get deployments", "get statefulsets", "get services", "get horizontalpodautoscalers", "list pods", "list deployments",
			"create deployments", "create services", "create horizontalpodautoscalers", "patch cachebackends/status",
		},
	}, {
		name: "the first KV event", act: (*subject).seesKVEvent,
		end: working, by: []string{v1alpha1.ReasonAwaitingFirstKVEvent, v1alpha1.ReasonKVEventsObserved},
		objects: []string{"Deployment", "Service", "HorizontalPodAutoscaler"},
		uses:    []string{"patch cachebackends/status"},
	}, {
		name: "a change of the spec and of an object",
		act: func(s *subject) {
			s.kubectl("patch", "service", s.name, "--type=json", `-p=[{"op":"replace","path":"/spec/ports/0/port","value":9999}]`)
			s.edit(autoscaled(1, 3), func(b *v1alpha1.CacheBackend) {
				b.Spec.RemoteStorage.LMCacheServer = &v1alpha1.LMCacheServerSpec{Image: "example.com/lmcache:v2"}
			})
		},
		end: working, by: rollout, objects: []string{"Deployment", "Service", "HorizontalPodAutoscaler"},
		uses: []string{"patch deployments", "patch services", "patch horizontalpodautoscalers"},
	}, {
		name: "a change of the kind", act: edits(deploymentKind("StatefulSet")),
		end: working, by: rollout, objects: []string{"StatefulSet", "Service", "HorizontalPodAutoscaler"},
		deletes: []string{"deployments"}, uses: []string{"create statefulsets", "delete deployments"},
	}, {
		name: "a change of the provider", act: edits(withoutAutoscaling, provider(v1alpha1.StorageProviderMooncake)),
		end: working, by: rollout, objects: []string{"StatefulSet", "Service"},
		deletes: []string{"services", "horizontalpodautoscalers"},
		uses:    []string{"patch statefulsets", "delete services", "delete horizontalpodautoscalers"},
	}, {
		name: "the end of the tier", act: edits(eventsOnly), end: working, by: rollout,
		deletes: []string{"statefulsets", "services"}, uses: []string{"delete statefulsets", "delete services"},
	}}
}

// ofPasses are the calls of passes, without those that tell events: to repeat these is up to client-go.
func ofPasses(what string) bool {
	verb, resource, _ := strings.Cut(what, " ")
	if verb == "get" { // Discovery is none.
		return slices.Contains(slices.Collect(maps.Values(resourceOf)), resource)
	}
	return !isCached(what) && resource != "events"
}

func ofWrites(what string) bool { return ofPasses(what) && isWrite(what) }

// TestFaults: whatever fails on the way, the controller comes to where it would have come, and touches nothing else on
// the way. It starts controllers of its own, and must not run beside other tests.
func TestFaults(t *testing.T) {
	withoutController(t)
	for _, tt := range []struct {
		name  string
		spoil handler
		on    func(string) bool
	}{
		{name: "no answers", spoil: hangs, on: ofWrites}, // The longest come first.
		{name: "503 for a second", spoil: answers(503, metav1.StatusReasonServiceUnavailable, 1), on: ofWrites},
		{name: "429 for a second", spoil: answers(429, metav1.StatusReasonTooManyRequests, 1), on: ofWrites},
		{name: "reset connections", spoil: resets, on: ofPasses},
		{name: "500", spoil: answers(500, metav1.StatusReasonInternalError, 0), on: ofPasses},
		{name: "503", spoil: answers(503, metav1.StatusReasonServiceUnavailable, 0), on: ofPasses},
		{name: "409", spoil: answers(409, metav1.StatusReasonConflict, 0), on: ofWrites},
		{name: "404 of the whole group", spoil: answers(404, metav1.StatusReasonNotFound, 0),
			on: func(what string) bool { return what == "patch cachebackends/status" }},
		{name: "lost answers", spoil: loses, on: ofWrites},
		{name: "late answers", spoil: delays, on: ofPasses},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			p := startProcess(t, s.namespace, pass)
			h := s.record()
			for _, step := range steps() {
				step.under(s, h, p, &faults{spoil: tt.spoil, on: tt.on, done: sets.New[string]()})
			}
			p.stop()
			s.expectTruthfulEvents(h)
		})
	}
}

// under makes a step while requests are spoilt.
func (step *step) under(s *subject, h *history, p *process, f *faults) {
	s.Helper()
	s.Log(step.name)
	before := s.uids()
	stored := len(h.all())
	start := p.spoil(f.handle)
	step.act(s)
	s.waitState(step.end)
	s.waitObjects(step.objects...)

	spoilt := f.spoilt()
	for _, used := range step.uses {
		if f.on(used) && !slices.Contains(spoilt, used) {
			s.Errorf("%s: no %s was spoilt, only %v", step.name, used, spoilt)
		}
	}
	for _, what := range p.since(start) {
		if deleted, ok := strings.CutPrefix(what, "delete "); ok && !slices.Contains(step.deletes, deleted) {
			s.Errorf("%s: there was a request to delete %s", step.name, deleted)
		}
	}
	after := s.uids()
	for kind, uid := range before {
		if !slices.Contains(step.deletes, resourceOf[kind]) && after[kind] != uid {
			s.Errorf("%s: the %s was replaced", step.name, kind)
		}
	}
	for _, backend := range h.all()[stored:] {
		if ready := apimeta.FindStatusCondition(backend.Status.Conditions, v1alpha1.ConditionReady); ready != nil &&
			!slices.Contains(step.by, ready.Reason) || apimeta.IsStatusConditionTrue(backend.Status.Conditions, v1alpha1.ConditionDegraded) {
			s.Errorf("%s: the backend was stored with %s", step.name, state(backend))
		}
	}
}

// uids are those of the backend's own objects by their kinds.
func (s *subject) uids() map[string]types.UID {
	s.Helper()
	uids := map[string]types.UID{}
	for kind := range resourceOf {
		object, err := s.read(s.Context(), kind)
		if apierrors.IsNotFound(err) {
			continue
		}
		must(s.T, err)
		uids[kind] = object.GetUID()
	}
	return uids
}

// TestSingletonUnderFaults: what cannot be read may be there. It starts controllers of its own, and must not run beside
// other tests.
func TestSingletonUnderFaults(t *testing.T) {
	withoutController(t)
	for name, spoil := range map[string]handler{
		"500": answers(500, metav1.StatusReasonInternalError, 0), "reset connections": resets, "no answers": hangs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			p := startProcess(t, s.namespace, pass)
			s.create(provider(v1alpha1.StorageProviderRedis))
			s.waitBackendReady()
			f := &faults{spoil: spoil, on: ofPasses, done: sets.New[string]()}
			start := p.spoil(f.handle)
			s.edit(deploymentKind("StatefulSet"))
			s.waitObjects("StatefulSet", "Service")
			s.waitBackendReady()
			if !slices.Contains(f.spoilt(), "get deployments") {
				t.Errorf("the former workload is not read, only %v", f.spoilt())
			}
			made := p.since(start)
			gone, come := slices.Index(made, "delete deployments"), slices.Index(made, "create statefulsets")
			if gone < 0 || gone > come {
				t.Errorf("a second server was started beside the first: %v", made)
			}
		})
	}
}

// TestPodsThatCannotBeListed: what was known of engine pods stands until they can be listed again, and all else goes on.
func TestPodsThatCannotBeListed(t *testing.T) {
	withoutController(t)
	s := newSubject(t)
	p := startProcess(t, s.namespace, pass)
	s.create(hostOnly, selectsEngines)
	s.waitReady(metav1.ConditionTrue, v1alpha1.ReasonHostOnlyActive)
	s.createEngine(newEngine("engine", nil))
	s.touch()
	s.waitMatched(1, "")

	refused := answers(500, metav1.StatusReasonInternalError, 0)
	start := p.spoil(func(call *call, send sender) (*http.Response, error) {
		if call.what == "list pods" {
			return refused(call, send)
		}
		return send(call.Request)
	})
	s.kubectl("delete", "pod", "engine")
	s.edit(func(b *v1alpha1.CacheBackend) { b.Spec.Integration = &v1alpha1.IntegrationSpec{FailOpen: new(false)} })
	s.waitReady(metav1.ConditionTrue, v1alpha1.ReasonHostOnlyActive)
	if !slices.Contains(p.since(start), "list pods") {
		t.Error("the pods were not asked for")
	}
	s.waitMatched(1, "")
	p.spoil(pass)
	s.touch()
	s.waitMatched(0, "no Pods in namespace match")
}
