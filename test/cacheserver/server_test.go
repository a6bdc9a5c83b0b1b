// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/test/cluster"
)

func newServer(t *testing.T, options Options) *Server {
	t.Helper()
	server, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return server
}

// request returns the status, the body without the white space around it, and the header of an answer.
func request(t *testing.T, method, url, authorization, body string) (code int, text string, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(content)), response.Header
}

// TestTokens lets a real kube-apiserver review real tokens.
func TestTokens(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: 1, WithoutManifests: true, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	kube, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	controller, other := "Bearer "+token(t, kube, "controller", ControllerAudience), "bearer "+token(t, kube, "other", ControllerAudience)
	policy := "Bearer " + token(t, kube, "controller", PolicyAudience)
	server := newServer(t, Options{
		Reviews: kube.AuthenticationV1().TokenReviews(), AllowedUsers: []string{"system:serviceaccount:default:controller"},
	})
	dead, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	deaf := newServer(t, Options{Reviews: dead.AuthenticationV1().TokenReviews()})

	const probe, policies = `{"backend":"a/b","model":"m","hashScheme":"vllm"}`, `{"version":7,"policies":[]}`
	tests := []struct {
		name, method, url, authorization, body string
		code                                   int
		text                                   string
	}{
		{"the right token", "GET", server.URL(SnapshotPath), controller, "", 200, `{"replicas":null,"tenants":null,"totalPrefixes":0,"hotPrefixes":0}`},
		{"the right token", "POST", server.URL(ProbePath), controller, probe, 200, `{"backend":"a/b","ingest":"ok","routing":"ok","t2":"skipped"}`},
		{"the right token", "PUT", server.URL(PolicyPath), policy, policies, 204, ""},
		{"a token for policies", "GET", server.URL(SnapshotPath), policy, "", 401, "unauthorized"},
		{"a token for the index", "POST", server.URL(PolicyPath), controller, policies, 401, "unauthorized"},
		{"somebody else", "GET", server.URL(SnapshotPath), other, "", 403, "forbidden"},
		{"no token", "GET", server.URL(SnapshotPath), "", "", 401, "unauthorized"},
		{"an empty token", "POST", server.URL(ProbePath), "Bearer  ", probe, 401, "unauthorized"},
		{"another scheme", "GET", server.URL(SnapshotPath), "Basic " + controller, "", 401, "unauthorized"},
		{"no real token", "POST", server.URL(PolicyPath), "Bearer x", policies, 401, "unauthorized"},
		{"no token, another method", "DELETE", server.URL(SnapshotPath), "", "", 401, "unauthorized"},
		{"the right token, another method", "DELETE", server.URL(SnapshotPath), controller, "", 405, "method not allowed"},
		{"another path", "GET", server.URL(SnapshotPath + "/"), "", "", 404, "404 page not found"},
		{"nobody to ask", "GET", deaf.URL(SnapshotPath), controller, "", 503, "token review unavailable"},
	}
	for _, test := range tests {
		code, text, _ := request(t, test.method, test.url, test.authorization, test.body)
		if code != test.code || text != test.text {
			t.Errorf("%s %s with %s: got %d %q, want %d %q", test.method, test.url, test.name, code, text, test.code, test.text)
		}
	}
}

// token makes a service account, unless it is there, and returns a token of it for an audience.
func token(t *testing.T, kube kubernetes.Interface, account, audience string) string {
	t.Helper()
	accounts := kube.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Get(t.Context(), account, metav1.GetOptions{}); err != nil {
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	request, err := accounts.CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	server := newServer(t, Options{})
	tests := []struct {
		method, path, body string
		code               int
		allow              string
	}{
		{"HEAD", SnapshotPath, "", 405, "GET"},
		{"GET", ProbePath, "", 405, "POST"},
		{"GET", PolicyPath, "", 405, "POST, PUT"},
		{"POST", ProbePath, `{"backend":"a/b","model":"m"}`, 400, ""},
		{"POST", ProbePath, `{"backend":"a/b","model":"m","hashScheme":"vllm","more":1}`, 400, ""},
		{"POST", ProbePath, `{"backend":"a/b","Model":"m","hashScheme":"vllm"}`, 400, ""},
		{"POST", ProbePath, `{"backend":"a/b","model":"m","hashScheme":"vllm"}{}`, 400, ""},
		{"POST", ProbePath, `{"backend":"` + strings.Repeat("a", maxProbeBytes) + `","model":"m","hashScheme":"vllm"}`, 400, ""},
		{"POST", PolicyPath, `{"version":2,"policies":[]}`, 400, ""},
		{"POST", PolicyPath, `{"version":8,"policies":[]}`, 400, ""},
		{"POST", PolicyPath, `{"version":7,"policies":null}`, 400, ""},
		{"POST", PolicyPath, `{"version":7,"policies":[{"tenant":"x"}]}`, 400, ""},
		{"POST", PolicyPath, `{"version":7,"policies":[]}` + strings.Repeat(" ", maxBodyBytes), 400, ""},
	}
	for _, test := range tests {
		code, _, header := request(t, test.method, server.URL(test.path), "", test.body)
		if code != test.code || header.Get("Allow") != test.allow {
			t.Errorf("%s %s %.80s: got %d, Allow %q", test.method, test.path, test.body, code, header.Get("Allow"))
		}
	}
	if len(server.Probes()) != 0 || len(server.Policies()) != 0 {
		t.Errorf("took %v and %v", server.Probes(), server.Policies())
	}
}

func TestHeldRequestIsAnsweredInTheEnd(t *testing.T) {
	t.Parallel()
	server := newServer(t, Options{})
	arrived, released := make(chan struct{}), make(chan struct{})
	hold := HoldUntil(released)
	server.SetBehavior(ProbePath, func(endpoint http.Handler) http.Handler {
		close(arrived)
		return hold(endpoint)
	})
	server.SetProber(Failing("ingest", "no publisher"))
	go func() {
		<-arrived
		if len(server.Probes()) != 0 {
			t.Error("the request was not held")
		}
		close(released)
	}()
	code, text, _ := request(t, "POST", server.URL(ProbePath), "", `{"backend":"a/b","model":"m","hashScheme":"vllm"}`)
	want := `{"backend":"a/b","ingest":"failed","routing":"skipped","t2":"skipped","errors":[{"stage":"ingest","message":"no publisher"}]}`
	if code != 200 || text != want {
		t.Errorf("got %d %s", code, text)
	}
}
