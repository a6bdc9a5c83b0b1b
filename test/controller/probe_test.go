// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cacheserver"
)

// TestFunctionalProbe: what a stage has said stands until one says otherwise, and a server that cannot be asked says nothing.
// Each backend is asked once in a window, so the test lasts for two of these.
func TestFunctionalProbe(t *testing.T) {
	s := newStage(t)
	s.server.SetProber(cacheserver.Failing("ingest", "synthesized event is not in the index"))
	failing := create(t)
	unready := create(t, waitsForKVEvents)
	skipping := create(t, func(b *v1alpha1.CacheBackend) { b.Annotations[v1alpha1.AnnotationSkipFunctionalProbe] = "true" })

	if got := failing.waitCondition(v1alpha1.ConditionFunctionalProbeOK, "False/ProbeIngestFailed").Message; got != "synthesized event is not in the index" {
		t.Errorf("FunctionalProbeOK says %q", got)
	}
	failing.waitCondition(v1alpha1.ConditionReady, "False/ProbeIngestFailed")
	failing.waitCondition(v1alpha1.ConditionProgressing, "False/ProbeIngestFailed")
	failing.waitCondition(v1alpha1.ConditionDegraded, "False/NotDegraded")
	skipping.waitCondition(v1alpha1.ConditionFunctionalProbeOK, "True/ProbeBypassed")
	skipping.waitBackendReady()
	unready.waitCondition(v1alpha1.ConditionReady, "False/AwaitingFirstKVEvent")
	unready.waitCondition(v1alpha1.ConditionFunctionalProbeOK, "")
	if diff := cmp.Diff([]cacheserver.ProbeRequest{{
		Backend: failing.namespace + "/cache", Model: "functional-self-test", HashScheme: "vllm", BackendType: "LMCache",
	}}, slices.Compact(s.server.Probes())); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}

	s.server.SetBehavior(cacheserver.ProbePath, cacheserver.Answer(http.StatusInternalServerError, "index is locked"))
	unanswered := create(t)
	if got := unanswered.waitCondition(v1alpha1.ConditionFunctionalProbeOK, "Unknown/ProbeError").Message; !strings.Contains(got, "500") || !strings.Contains(got, "index is locked") {
		t.Errorf("FunctionalProbeOK says %q", got)
	}
	unanswered.waitBackendReady()
	s.waitRequests(cacheserver.ProbePath, 3) // That of the new backend, and another for the failing one.
	failing.waitCondition(v1alpha1.ConditionReady, "False/ProbeIngestFailed")
	failing.waitCondition(v1alpha1.ConditionFunctionalProbeOK, "False/ProbeIngestFailed")

	s.server.SetProber(cacheserver.Passing)
	s.server.SetBehavior(cacheserver.ProbePath, nil)
	failing.waitCondition(v1alpha1.ConditionFunctionalProbeOK, "True/ProbeOK")
	failing.waitBackendReady()
	failing.waitEvents() // A probe is told by conditions and metrics alone.
	unanswered.waitCondition(v1alpha1.ConditionFunctionalProbeOK, "True/ProbeOK")
	told := strings.Join(s.series("inferencecache_backend_probe_result_total", failing.namespace), "\n")
	for _, labels := range []string{`result="failed",stage="ingest"`, `result="skipped",stage="routing"`, `result="ok",stage="ingest"`} {
		if !strings.Contains(told, labels) {
			t.Errorf("the series are:\n%s\nwithout %s", told, labels)
		}
	}
}
