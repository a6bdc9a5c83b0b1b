// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// bundle is an authority whose certificates may not be known yet.
type bundle struct {
	dynamiccertificates.CAContentProvider
	content []byte
}

func (b *bundle) CurrentCABundleContent() []byte { return b.content }

// TestFrontProxyUnknown asserts that nobody is told to be unauthorized by a server that does
// not know yet whom to believe. Health is answered all the same, and readiness says no.
func TestFrontProxyUnknown(t *testing.T) {
	t.Parallel()
	ca := &bundle{}
	proxy := frontProxy{ca: ca}
	handler := proxy.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	ask := func(path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return recorder
	}

	if proxy.Check(nil) == nil {
		t.Error("ready without an authority")
	}
	if got := ask("/apis"); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v, want 503 with Retry-After", got.Code, got.Header())
	}
	if got := ask("/livez"); got.Code != http.StatusUnauthorized {
		t.Errorf("livez got %d, want it passed on", got.Code)
	}
	ca.content = []byte("certificates")
	if err := proxy.Check(nil); err != nil {
		t.Error(err)
	}
	if got := ask("/apis"); got.Code != http.StatusUnauthorized {
		t.Errorf("got %d, want it passed on", got.Code)
	}
}
