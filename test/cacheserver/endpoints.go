// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

const (
	// ControllerAudience is what tokens for the index and for probes are issued for.
	ControllerAudience = "inferencecache.io/controller"
	// PolicyAudience is what tokens for policies are issued for.
	PolicyAudience = "inferencecache.io/policy"

	maxBodyBytes  = 1 << 20
	maxProbeBytes = 4 << 10

	oldestPolicyVersion, newestPolicyVersion = 3, 7
)

// endpoint returns the handler of a path. Whoever may not call is told nothing of methods, and any other path needs no token.
func (s *Server) endpoint(path string) http.Handler {
	switch path {
	case SnapshotPath:
		return s.guard(ControllerAudience, s.serveSnapshot, http.MethodGet)
	case ProbePath:
		return s.guard(ControllerAudience, s.serveProbe, http.MethodPost)
	case PolicyPath:
		return s.guard(PolicyAudience, s.servePolicy, http.MethodPost, http.MethodPut)
	}
	return http.NotFoundHandler()
}

func (s *Server) guard(audience string, next http.HandlerFunc, methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, message := s.authenticate(r, audience); code != http.StatusOK {
			http.Error(w, message, code)
			return
		}
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		next(w, r)
	})
}

// authenticate asks Kubernetes whose token the request carries. Nothing is remembered, unlike in the real server.
func (s *Server) authenticate(r *http.Request, audience string) (code int, message string) {
	if s.options.Reviews == nil {
		return http.StatusOK, ""
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, "unauthorized"
	}
	review := &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
	}
	review, err := s.options.Reviews.Create(r.Context(), review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusServiceUnavailable, "token review unavailable"
	case !review.Status.Authenticated:
		return http.StatusUnauthorized, "unauthorized"
	case !slices.Contains(s.options.AllowedUsers, review.Status.User.Username):
		return http.StatusForbidden, "forbidden"
	}
	return http.StatusOK, ""
}

func (s *Server) serveSnapshot(w http.ResponseWriter, _ *http.Request) {
	s.mutex.Lock()
	body := s.snapshot
	s.mutex.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func (s *Server) serveProbe(w http.ResponseWriter, r *http.Request) {
	var request ProbeRequest
	if _, err := decode(r, maxProbeBytes, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if request.Backend == "" || request.Model == "" || request.HashScheme == "" {
		http.Error(w, "backend, model and hashScheme are required", http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	s.probes = append(s.probes, request)
	prober := s.prober
	s.mutex.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(prober(request)))
}

func (s *Server) servePolicy(w http.ResponseWriter, r *http.Request) {
	var policies Policies
	body, err := decode(r, maxBodyBytes, &policies)
	if err == nil && (policies.Version < oldestPolicyVersion || policies.Version > newestPolicyVersion) {
		err = fmt.Errorf("version %d is not supported", policies.Version)
	}
	if err == nil && policies.Policies == nil {
		err = errors.New("policies must not be null")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	policies.Raw = body
	s.mutex.Lock()
	s.policies = append(s.policies, policies)
	s.mutex.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// decode reads one JSON object without keys that are unknown or written otherwise.
func decode(r *http.Request, limit int, into any) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if len(body) > limit {
		return nil, fmt.Errorf("the body is larger than %d bytes", limit)
	}
	strict, err := kjson.UnmarshalStrict(body, into)
	return body, errors.Join(append(strict, err)...)
}
