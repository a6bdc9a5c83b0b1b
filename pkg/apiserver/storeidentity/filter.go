// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryAfterSeconds is short because client-go waits for it ten times before it shows the message to anybody.
const retryAfterSeconds = 1

// WithGuard answers 503 for everything that depends on the store while the guard has not verified it. Discovery and
// OpenAPI are among it: a group that is served without its resources is as good as a 404. Health, metrics and version
// are not.
func WithGuard(handler http.Handler, guard *Guard) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if guarded(r.URL.Path) {
			if err := guard.Err(); err != nil {
				unavailable(w, err)
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// guarded looks at the cleaned path, so that no spelling of a guarded path gets through.
func guarded(p string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+p), "/"), "/")
	switch first {
	case "api", "apis", "openapi":
		return true
	}
	return false
}

// unavailable writes the status by hand: the negotiated serializers are for the handlers behind.
func unavailable(w http.ResponseWriter, err error) {
	status := apierrors.NewServiceUnavailable(err.Error()).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	status.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, private")
	w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body) // the client has gone: nobody to tell
}
