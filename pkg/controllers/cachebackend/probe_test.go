// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// probeServer answers as it is told to, and remembers what it was asked.
type probeServer struct {
	result  cacheserver.ProbeResult
	err     error
	seen    []cacheserver.ProbeRequest
	counted int
}

func (s *probeServer) Probe(_ context.Context, request cacheserver.ProbeRequest) (*cacheserver.ProbeResult, error) {
	s.seen = append(s.seen, request)
	if s.err != nil {
		return nil, s.err
	}
	result := s.result
	result.Backend = request.Backend
	return &result, nil
}

// wantCalls says how many calls there were since it last did.
func (s *probeServer) wantCalls(t *testing.T, want int) {
	t.Helper()
	if got := len(s.seen) - s.counted; got != want {
		t.Errorf("%d calls, want %d", got, want)
	}
	s.counted = len(s.seen)
}

// serving is a rig with a backend of the given name whose workload is available, in a
// cluster with probes.
func serving(t *testing.T, name string, changes ...change) (*rig, *probeServer) {
	t.Helper()
	named := func(backend *v1alpha1.CacheBackend) { backend.Name = name }
	r := newRig(t, newBackend(append(changes, optedOut, named)...))
	r.key.Name = name
	r.wantPass()
	r.makeAvailable()
	server := &probeServer{result: passedProbe}
	r.prober = server
	return r, server
}

func (r *rig) makeAvailable() {
	r.Helper()
	r.setAvailable(1)
}

// setAvailable does the work of the Deployment's controller.
func (r *rig) setAvailable(replicas int32) {
	r.Helper()
	deployment := &appsv1.Deployment{}
	if err := r.client.Get(r.Context(), r.key, deployment); err != nil {
		r.Fatal(err)
	}
	deployment.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: replicas, ReadyReplicas: replicas}
	if err := r.client.Status().Update(r.Context(), deployment); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) wantProbe(want string) {
	r.Helper()
	got := ""
	if condition := find(&r.backend().Status, v1alpha1.ConditionFunctionalProbeOK); condition != nil {
		got = string(condition.Status) + "/" + condition.Reason
	}
	if got != want {
		r.Errorf("FunctionalProbeOK is %q, want %q", got, want)
	}
}

func (r *rig) wantPass() {
	r.Helper()
	if _, _, err := r.pass(); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) wait(elapsed time.Duration) {
	r.clock.(*clocktesting.FakePassiveClock).SetTime(r.clock.Now().Add(elapsed))
}

func TestProbeOncePerWindow(t *testing.T) {
	t.Parallel()
	r, server := serving(t, "probed", func(b *v1alpha1.CacheBackend) { b.Spec.Runtime = "vLLM" })
	for range 3 {
		r.wantPass()
	}
	r.wantProbe("True/ProbeOK")
	server.wantCalls(t, 1)
	if diff := cmp.Diff(cacheserver.ProbeRequest{
		Backend: "ns1/probed", Model: "functional-self-test", HashScheme: "vllm", BackendType: "LMCache",
	}, server.seen[0]); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	for _, stage := range []string{"ingest", "routing", "t2"} {
		result := map[string]string{"ingest": "ok", "routing": "ok", "t2": "skipped"}[stage]
		if got := testutil.ToFloat64(probeResults.WithLabelValues("ns1/probed", stage, result)); got != 1 {
			t.Errorf("%s=%s is counted %v times", stage, result, got)
		}
	}
	server.err = errNoAnswer
	r.wait(probeWindow)
	for range 2 {
		r.wantPass()
	}
	r.wantProbe("Unknown/ProbeError")
	server.wantCalls(t, 1)
	r.wait(probeWindow)
	server.err, server.result = nil, cacheserver.ProbeResult{Ingest: "failed", Routing: "what", T2: ""}
	r.wantPass()
	r.wantProbe("False/ProbeIngestFailed")
	for stage, want := range map[string]float64{"ingest": 1, "routing": 1, "t2": 1} {
		if got := testutil.ToFloat64(probeResults.WithLabelValues("ns1/probed", stage, "failed")); got != want {
			t.Errorf("%s=failed is counted %v times, want %v", stage, got, want)
		}
	}
	r.deleteAll()
	r.wantPass()
	if left := probeResults.DeletePartialMatch(prometheus.Labels{"backend": "ns1/probed"}); left != 0 {
		t.Errorf("%d series of a backend that is gone", left)
	}
}

// TestProbeAnswerOutlivesAFailedWrite: an answer whose status could not be written is
// published by the next pass, without another call.
func TestProbeAnswerOutlivesAFailedWrite(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{
		"refused":  errRefused,
		"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "cachebackends"}, "unwritten", errors.New("changed")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, server := serving(t, "unwritten")
			server.result = routeFailed
			r.fail = failing[*v1alpha1.CacheBackend]("patch status", fault)
			for range 2 {
				_, _, _ = r.pass()
			}
			r.wantProbe("")
			r.heal()
			r.wantPass()
			r.wantProbe("False/ProbeRoutingFailed")
			server.wantCalls(t, 1)
		})
	}
}

// TestProbeAnswerWaits: an answer that was not published is not taken for published because
// another status was stored in between.
func TestProbeAnswerWaits(t *testing.T) {
	t.Parallel()
	skip := func(value string) change {
		return func(b *v1alpha1.CacheBackend) { b.Annotations[v1alpha1.AnnotationSkipFunctionalProbe] = value }
	}
	for name, between := range map[string][2]func(*rig){
		"down":     {func(r *rig) { r.setAvailable(0) }, func(r *rig) { r.setAvailable(1) }},
		"bypassed": {func(r *rig) { r.update(skip("true")) }, func(r *rig) { r.update(skip("")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, server := serving(t, "waiting")
			r.wantPass()
			r.wantProbe("True/ProbeOK")
			r.wait(probeWindow)
			server.result = routeFailed
			r.fail = failing[*v1alpha1.CacheBackend]("patch status", errRefused)
			_, _, _ = r.pass()
			server.wantCalls(t, 2)
			r.heal()
			between[0](r)
			r.wantPass()
			between[1](r)
			r.wantPass()
			r.wantProbe("False/ProbeRoutingFailed")
			server.wantCalls(t, 0)
		})
	}
}

// TestProbeWithAStaleCache: a pass that still reads the backend as it was before the
// verdict does not call for it again.
func TestProbeWithAStaleCache(t *testing.T) {
	t.Parallel()
	r, server := serving(t, "stale")
	before := r.backend()
	r.wantPass()
	server.wantCalls(t, 1)
	cached := r.client
	r.client = staleReader{cached, before}
	if result, _, err := r.pass(); err != nil || result.RequeueAfter != staleRequeue {
		t.Errorf("%+v, %v", result, err)
	}
	r.client = cached
	r.wantPass()
	server.wantCalls(t, 0)
}

// staleReader reads a backend as it was.
type staleReader struct {
	client.Client
	backend *v1alpha1.CacheBackend
}

func (s staleReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if backend, ok := object.(*v1alpha1.CacheBackend); ok {
		s.backend.DeepCopyInto(backend)
		return nil
	}
	return s.Client.Get(ctx, key, object, options...)
}

// TestProbeIsForgotten: a backend that leaves its tier or is made anew is probed at once.
func TestProbeIsForgotten(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*rig){
		"on another path": func(r *rig) {
			remote := r.backend().Spec.RemoteStorage
			r.update(hostOnly)
			r.wantPass()
			r.update(func(b *v1alpha1.CacheBackend) { b.Spec.RemoteStorage = remote })
		},
		"deleted": func(r *rig) {
			r.deleteAll()
			r.wantPass()
			if len(r.memories.byName) != 0 {
				r.Errorf("%v is remembered", r.memories.byName)
			}
			r.recreate("U")
		},
		"made anew unseen": func(r *rig) {
			r.deleteAll()
			r.recreate("V")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, server := serving(t, "forgotten")
			r.wantPass()
			server.wantCalls(t, 1)
			leave(r)
			r.wantPass()
			r.makeAvailable()
			r.wantPass()
			r.wantProbe("True/ProbeOK")
			server.wantCalls(t, 1)
		})
	}
}

func (r *rig) update(change change) {
	r.Helper()
	backend := r.backend()
	change(backend)
	if err := r.client.Update(r.Context(), backend); err != nil {
		r.Fatal(err)
	}
}

// deleteAll deletes the backend and does the garbage collector's work on its workload.
func (r *rig) deleteAll() {
	r.Helper()
	meta := metav1.ObjectMeta{Namespace: r.key.Namespace, Name: r.key.Name}
	for _, object := range []client.Object{&v1alpha1.CacheBackend{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}} {
		if err := r.client.Delete(r.Context(), object); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *rig) recreate(uid types.UID) {
	r.Helper()
	backend := newBackend(optedOut, func(b *v1alpha1.CacheBackend) { b.Name, b.UID = r.key.Name, uid })
	if err := r.client.Create(r.Context(), backend); err != nil {
		r.Fatal(err)
	}
}
