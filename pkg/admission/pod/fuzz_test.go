// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/test/wiringcases"
)

// FuzzBody sends any body to the handler. It is refused with a 4xx, or allowed.
func FuzzBody(f *testing.F) {
	f.Add(reviewOf(enginePod))
	f.Add(reviewOf("null"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var review admissionv1.AdmissionReview
		if kjson.UnmarshalCaseSensitivePreserveInts(body, &review) == nil && review.Request != nil && review.Request.UID != "request" {
			return // send expects the uid of its own reviews
		}
		if code, _ := send(t, stored(hostOnly("a")), bytes.NewReader(body)); code != http.StatusOK && (code < 400 || code > 499) {
			t.Errorf("got %d", code)
		}
	})
}

// FuzzPod admits any pod by backends of every adapter. The patch applies to the pod as
// received, and admitting the result again changes nothing.
func FuzzPod(f *testing.F) {
	cases, err := wiringcases.Load("../../../testdata/engine-wiring-cases")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		data, err := json.Marshal(c.Pod)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	backends := everyAdapter()
	f.Fuzz(func(t *testing.T, data []byte) {
		pod := &corev1.Pod{}
		if kjson.UnmarshalCaseSensitivePreserveInts(data, pod) != nil || pod.Kind != "" || !json.Valid(data) {
			return
		}
		for i := range backends {
			decider := &Decider{Subscriber: engine.Subscriber{Image: "subscriber"}}
			decision := decider.wire(pod, &backends[i])
			encoded, err := patchFor(data, pod, decision.Pod)
			if err != nil {
				t.Fatal(err)
			}
			again := decider.wire(decision.Pod, &backends[i])
			if again.Outcome != decision.Outcome {
				t.Errorf("%s is %s: %s; and then %s: %s", backends[i].Name, decision.Outcome, decision.Message, again.Outcome, again.Message)
			}
			if encoded == nil {
				continue
			}
			patch, err := jsonpatch.DecodePatch(encoded)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := patch.Apply(data); err != nil {
				t.Errorf("applying %s to %s: %v", encoded, data, err)
			}
		}
	})
}

func everyAdapter() []inferencecache.CacheBackend {
	backends := []inferencecache.CacheBackend{hostOnly("vllm"), hostOnly("sglang"), hostOnly("hicache"), hostOnly("events")}
	backends[1].Spec.Runtime = inferencecache.RuntimeSGLang
	backends[2].Spec.Runtime = inferencecache.RuntimeSGLang
	backends[2].Spec.Type = inferencecache.CacheTypeSGLangHiCache
	backends[2].Spec.HiCache = &inferencecache.HiCacheSpec{Ratio: "2.0"}
	backends[3].Spec.Integration = &inferencecache.IntegrationSpec{Mode: inferencecache.IntegrationModeEventsOnly}
	for i := range backends {
		backends[i].Spec.Observation = &inferencecache.ObservationSpec{ModelID: "model"}
	}
	return backends
}
