// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	// The handler behind answers as an empty store would.
	behind := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	host := fake.NewClientset(configMap("old", ""))
	g := newGuard("new", newKV(t), host)
	handler := WithGuard(behind, g)

	guardedPaths := []string{
		"/apis", "/apis/", "/apis/inferencecache.io", "/apis/inferencecache.io/v1alpha1",
		"/apis/inferencecache.io/v1alpha1/namespaces/a/cachebackends/b", "//apis/inferencecache.io", "/x/../apis/y",
		"/api", "/openapi/v2", "/openapi/v3/apis/inferencecache.io/v1alpha1",
	}
	openPaths := []string{"/", "/livez", "/readyz", "/readyz/store-identity", "/healthz", "/metrics", "/metrics/etcd", "/version", "/apisx"}

	for _, state := range []string{"unchecked", "refused"} {
		for _, path := range guardedPaths {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				expectUnavailable(t, handler, method, path, g.Err().Error())
			}
		}
		expectPassed(t, handler, openPaths)
		if state == "unchecked" {
			expectError(t, evaluate(t, g), "accept-store=new-1")
		}
	}

	update(t, host, configMap("old", "new-1"))
	if err := evaluate(t, g); err != nil {
		t.Fatal(err)
	}
	expectPassed(t, handler, guardedPaths)
	expectPassed(t, handler, openPaths)
}

func request(method, path string) *http.Request {
	r := httptest.NewRequest(method, "http://server/", nil)
	r.URL.Path = path // unlike a parsed one it may begin with two slashes
	return r
}

func expectPassed(t *testing.T, handler http.Handler, paths []string) {
	t.Helper()
	for _, path := range paths {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request("GET", path))
		if answer.Code != http.StatusNotFound {
			t.Errorf("%s: code %d, want that of the handler behind", path, answer.Code)
		}
	}
}

func expectUnavailable(t *testing.T, handler http.Handler, method, path, message string) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request(method, path))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("%s %s: code %d, want 503", method, path, answer.Code)
		return
	}
	if got := answer.Header().Get("Retry-After"); got != "1" {
		t.Errorf("%s %s: Retry-After is %q, want 1", method, path, got)
	}
	if got := answer.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("%s %s: Content-Type is %q", method, path, got)
	}
	var status metav1.Status
	if err := json.NewDecoder(strings.NewReader(answer.Body.String())).Decode(&status); err != nil {
		t.Errorf("%s %s: body %q: %v", method, path, answer.Body, err)
		return
	}
	if status.Kind != "Status" || status.APIVersion != "v1" || status.Status != metav1.StatusFailure ||
		status.Code != 503 || status.Reason != metav1.StatusReasonServiceUnavailable || status.Message != message {
		t.Errorf("%s %s: status %+v, want message %q", method, path, status, message)
	}
}
