// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/install"
	"inferencecache.io/inferencecache/test/wiringcases"
)

// TestWiringCases sends every case through the handler, and the result once more: what is
// wired stays as it is.
func TestWiringCases(t *testing.T) {
	t.Parallel()
	cases, err := wiringcases.Load("../../../testdata/engine-wiring-cases")
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			handler := NewHandler(&Decider{
				Backends:   backendsOf(t, scheme, c),
				Subscriber: engine.Subscriber{Image: c.Options.SubscriberImage, ServerAddress: c.Options.PolicyServerAddress},
			})
			first, response := admit(t, handler, c.Pod)
			checkOutcome(t, c, response)
			if err := (wiringcases.Form{}).Check(c, first); err != nil {
				t.Error(err)
			}
			second, response := admit(t, handler, first)
			checkOutcome(t, c, response)
			if response.Patch != nil {
				t.Errorf("the second admission patches: %s", response.Patch)
			}
			if err := wiringcases.CheckUnchanged(first, second); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkOutcome(t *testing.T, c wiringcases.Case, response *admissionv1.AdmissionResponse) {
	t.Helper()
	if got := response.AuditAnnotations["outcome"]; got != string(c.Expect.Outcome) {
		t.Errorf("outcome is %s, want %s: %s", got, c.Expect.Outcome, response.Result.Message)
	}
	if c.Expect.Reason == "" {
		return
	}
	if got := response.AuditAnnotations["reason"]; got != c.Expect.Reason {
		t.Errorf("reason is %s, want %s: %s", got, c.Expect.Reason, response.Result.Message)
	}
}

// backendsOf stores the backends of a case as they are: nothing is defaulted.
func backendsOf(t *testing.T, scheme *runtime.Scheme, c wiringcases.Case) Backends {
	t.Helper()
	var backends []inferencecache.CacheBackend
	for _, backend := range c.Backends() {
		var internal inferencecache.CacheBackend
		if err := scheme.Convert(&backend, &internal, nil); err != nil {
			t.Fatal(err)
		}
		backends = append(backends, internal)
	}
	return stored(backends...)
}

// admit sends a pod through the handler and applies the answer.
func admit(t *testing.T, handler http.Handler, pod *corev1.Pod) (*corev1.Pod, *admissionv1.AdmissionResponse) {
	t.Helper()
	object, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(reviewOf(string(object))))
	handler.ServeHTTP(recorder, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("got %d %s", recorder.Code, recorder.Body)
	}
	if review.Response.Patch == nil {
		return pod.DeepCopy(), review.Response
	}
	patch, err := jsonpatch.DecodePatch(review.Response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if object, err = patch.Apply(object); err != nil {
		t.Fatal(err)
	}
	patched := &corev1.Pod{}
	if err := json.Unmarshal(object, patched); err != nil {
		t.Fatal(err)
	}
	return patched, review.Response
}
