// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// TestRandomStories takes backends through whatever may happen to them. Every pass checks
// what holds for every decision; here is what holds between passes.
func TestRandomStories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			s := newStory(t)
			seen := false
			for range 40 {
				before, path := s.backend.Status, Classify(s.backend).Path
				s.after(time.Duration(random.Int64N(int64(4 * time.Minute))))
				happen(random, s)
				decision := s.pass(randomObservation(random, s.now))
				after := Classify(s.backend).Path
				checkPath(t, after, &decision.Status)
				checkWindow(t, path, after, &before, &decision.Status)
				for _, event := range decision.Events {
					if event.Reason == v1alpha1.EventKVEventsObserved && seen {
						t.Error("the first KV event is told twice")
					}
					seen = seen || event.Reason == v1alpha1.EventKVEventsObserved
				}
				if t.Failed() {
					t.Fatalf("at %s, from %v to %v", s.now, published(&before), published(&decision.Status))
				}
			}
		})
	}
}

// happen lets something happen to the backend between two passes, or nothing.
func happen(random *rand.Rand, s *story) {
	edits := []change{
		eventsOnly, hostOnly, hiCache, statefulSet, external("LMCacheServer", "h:1"), external("LMCacheServer", "h"),
		managed("LMCacheServer"), managed("Mooncake"), optedOut, gate("true"), timeout(time.Minute), timeout(time.Hour),
		failOpenIs(false), failOpenIs(true), selector(map[string]string{"a": "1"}), selector(nil),
		func(b *v1alpha1.CacheBackend) { b.Spec.Replicas = new(int32(random.IntN(3))) },
		func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling = &v1alpha1.AutoscalingSpec{MaxReplicas: 3} },
		func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling = nil },
	}
	switch random.IntN(10) {
	case 0:
		s.event()
	case 1:
		s.drain()
	case 2, 3:
		s.edit(func(b *v1alpha1.CacheBackend) {
			b.Spec.Runtime, b.Spec.Type = v1alpha1.RuntimeVLLM, v1alpha1.CacheTypeLMCache
			b.Spec.Integration.Mode = v1alpha1.IntegrationModeOffload
		}, edits[random.IntN(len(edits))])
	}
}

func randomObservation(random *rand.Rand, now time.Time) Observation {
	chance := func() bool { return random.IntN(3) == 0 }
	few := func() int32 { return int32(random.IntN(3)) }
	observation := available(1 + few())
	w := &observation.Workload
	w.SpecChangedAt = now.Add(-time.Duration(random.IntN(15)) * time.Minute)
	if chance() {
		w.ObservedGeneration = random.Int64N(2)
		w.Replicas, w.UpdatedReplicas, w.AvailableReplicas = few(), few(), few()
		w.PodsListed = chance()
		w.UnreadyPods = []UnreadyPod{{CreatedAt: w.SpecChangedAt, WasReady: chance()}}
		w.UpdateRevision = fmt.Sprint("r", few())
		w.Progressing = []*Progress{
			nil, {Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated"}, {Status: corev1.ConditionFalse, Reason: progressDeadlineExceeded},
		}[few()]
	}
	w.Exists, w.Controlled = random.IntN(8) > 0, random.IntN(8) > 0
	if chance() {
		observation.Applied.Err = []error{nil, errors.New("timeout"), apierrors.NewBadRequest("too small")}[few()]
		observation.Applied.Refused = []*Refusal{nil, nil, {Kind: "Service", Name: "cache"}}[few()]
	}
	if random.IntN(8) == 0 {
		observation.Endpoint = ""
	}
	observation.Wired = randomWired(random)
	observation.Probe = Probe{Enabled: !chance()}
	if chance() {
		observation.Probe.Answer = &ProbeAnswer{
			At: now.Add(-time.Duration(random.IntN(40)) * time.Second), Published: chance(),
			Result: []cacheserver.ProbeResult{passedProbe, routeFailed, {}}[few()],
			Err:    []error{nil, nil, errNoAnswer}[few()],
		}
	}
	observation.Restart = Restart{Known: chance(), ServerInstance: "a:0", Wait: time.Duration(few())}
	observation.Engines = Engines{
		PodsListed: !chance(), Pods: few(), LivePods: few(), DeploymentsListed: !chance(), Deployments: few(), DesiredReplicas: few(),
	}
	return observation
}

func randomWired(random *rand.Rand) Wired {
	wired := Wired{Listed: random.IntN(3) > 0}
	for range random.IntN(3) {
		wired.Kernels = append(wired.Kernels, KernelCheck{
			Outcome: KernelOutcome(random.IntN(4)), Strict: random.IntN(2) == 0, Message: "FAIL: x",
		})
	}
	for range random.IntN(3) {
		wired.CrashLooping = append(wired.CrashLooping, CrashLoop{Pod: "eng", Container: "vllm", Announced: random.IntN(2) == 0})
	}
	return wired
}

// checkPath checks what a path publishes.
func checkPath(t *testing.T, path adapters.Path, status *v1alpha1.CacheBackendStatus) {
	t.Helper()
	// What is always published, and what may be besides.
	bounds := map[adapters.Path][2]int{
		adapters.Managed: {3, 7}, adapters.HostOnly: {3, 5}, adapters.EventsOnly: {3, 3}, adapters.External: {2, 2},
	}[path]
	if n := len(status.Conditions); n < bounds[0] || n > bounds[1] {
		t.Errorf("%s publishes %v", path, published(status))
	}
	tier := path == adapters.Managed || path == adapters.External
	if !tier && servesTier(status) {
		t.Errorf("%s publishes the endpoint %q", path, status.Endpoint)
	}
	withoutTier := path == adapters.HostOnly || path == adapters.EventsOnly
	if withoutTier && status.FirstAvailableAt == nil {
		t.Errorf("%s has no firstAvailableAt", path)
	}
	if (path == adapters.External || path == adapters.Unmanaged) && status.FirstAvailableAt != nil {
		t.Errorf("%s has firstAvailableAt", path)
	}
}

// checkWindow checks that the time for the first KV event does not start again, and that a
// verdict that none came in time stands, unless the backend's mode has changed. An endpoint
// that appears looks like a change of mode.
func checkWindow(t *testing.T, from, to adapters.Path, before, after *v1alpha1.CacheBackendStatus) {
	t.Helper()
	withoutTier := func(path adapters.Path) bool { return path == adapters.HostOnly || path == adapters.EventsOnly }
	same := from == to || withoutTier(from) && withoutTier(to)
	appeared := to == adapters.Managed && before.Endpoint == "" && after.Endpoint != ""
	if before.FirstAvailableAt == nil || !same || appeared {
		return
	}
	if !before.FirstAvailableAt.Equal(after.FirstAvailableAt) {
		t.Errorf("firstAvailableAt went from %v to %v", before.FirstAvailableAt, after.FirstAvailableAt)
	}
	ready := find(after, v1alpha1.ConditionReady)
	if storedBreach(before) != nil && ready.Reason == v1alpha1.ReasonAwaitingFirstKVEvent {
		t.Error("a verdict that no KV event came in time was taken back")
	}
}
