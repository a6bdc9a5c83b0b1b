// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// BenchmarkReview measures one review without network and storage: decoding, choosing
// among the backends of the namespace, wiring and encoding.
func BenchmarkReview(b *testing.B) {
	body := reviewOf(enginePod)
	for _, count := range []int{1, 100, 1000} {
		backends := make([]inferencecache.CacheBackend, count)
		for i := range backends {
			backends[i] = hostOnly(fmt.Sprintf("backend-%04d", i))
			if i > 0 {
				backends[i].Spec.EngineSelector.MatchLabels = map[string]string{"app": "another"}
			}
		}
		handler := NewHandler(&Decider{Backends: backendsFunc(func(context.Context, string) ([]inferencecache.CacheBackend, error) {
			return backends, nil
		})})
		b.Run(fmt.Sprintf("backends=%d", count), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, httptest.NewRequestWithContext(b.Context(), http.MethodPost, Path, bytes.NewReader(body)))
				if recorder.Code != http.StatusOK {
					b.Fatalf("got %d", recorder.Code)
				}
			}
		})
	}
}
