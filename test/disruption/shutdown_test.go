// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// TestStop asserts that a stop loses nothing: a request that the server has begun is answered, a watch ends as a watch
// ends and not with a broken connection, the process exits with 0, and it does not wait for anybody who only listens.
func TestStop(t *testing.T) {
	installed(t)
	namespace := newNamespace(t)
	kept := createBackend(t, namespace, "kept")
	server := direct(t)
	watchEnd := watchUntilEnd(t, server, "/apis/"+groupVersion+"/namespaces/"+namespace+"/cachebackends?watch=true")
	request := beginCreate(t, server, namespace, "in-flight")

	begun := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- host.StopAPIServer() }()
	eventually(t, "the API server takes no more requests", func(ctx context.Context) error {
		if _, err := server.do(ctx, http.MethodGet, "/livez", ""); err == nil {
			return errors.New("it is still listening")
		}
		return nil
	})
	if err := <-watchEnd; err != nil {
		t.Errorf("the watch ends with %v", err)
	}
	t.Logf("The watch ended after %s", time.Since(begun).Round(time.Millisecond))
	select {
	case err := <-stopped:
		t.Errorf("the server ends with a request in flight (error %v)", err)
	default:
	}
	if got := request.finish(t); got.code != http.StatusCreated {
		t.Errorf("the request in flight is answered %d %s", got.code, got.body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stopping: %v", err)
	}
	t.Logf("The server ended after %s", time.Since(begun).Round(time.Millisecond))

	begun = time.Now()
	start(t)
	waitServing(t)
	t.Logf("The server was back after %s", time.Since(begun).Round(time.Millisecond))
	backends := ours(t).InferencecacheV1alpha1().CacheBackends(namespace)
	if _, err := backends.Get(t.Context(), "in-flight", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if got, err := backends.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || got.ResourceVersion != kept.ResourceVersion {
		t.Errorf("after the restart: %v (error %v), want version %s", got, err, kept.ResourceVersion)
	}
}

// TestStart asserts what clients see of a start: no connection, then 503, then their answer, and never a 401, at which
// they would give up. A server that says it is ready answers everybody.
func TestStart(t *testing.T) {
	installed(t)
	pki := filepath.Join(host.Dir, "pki")
	config := directConfig(host.RESTConfig(), host.APIServer.Port)
	config.CertFile, config.KeyFile = filepath.Join(pki, "front-proxy-client.crt"), filepath.Join(pki, "front-proxy-client.key")
	config.CertData, config.KeyData = nil, nil
	server := newEndpoint(t, config) // as kube-apiserver asks it
	for range 5 {
		restart(t)
		eventually(t, "the server answers", func(ctx context.Context) error {
			readyErr := host.APIServerReady(ctx)
			for range 20 {
				got, err := server.askAs(ctx, "somebody", "system:masters")
				if err == nil && got.code != http.StatusOK && (got.code != http.StatusServiceUnavailable || readyErr == nil) {
					t.Fatalf("a list is answered %d %s (readyz: %v)", got.code, got.body, readyErr)
				}
			}
			return readyErr
		})
	}
	waitServing(t)
}

// watchUntilEnd opens a watch and reads it in the background, until it ends well (no error) or breaks.
func watchUntilEnd(t *testing.T, server endpoint, path string) <-chan error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := *server.client
	client.Timeout = 0
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the watch is answered %s", response.Status)
	}
	end := make(chan error, 1)
	go func() {
		defer response.Body.Close()
		_, err := io.Copy(io.Discard, response.Body)
		end <- err
	}()
	return end
}

// openRequest is a request that the server is in the midst of: it has read the head and waits for the rest of the body.
type openRequest struct {
	body   *io.PipeWriter
	rest   string
	answer <-chan answer
	err    <-chan error
}

// beginCreate sends a create without its body, and returns when the server asks for the body.
func beginCreate(t *testing.T, server endpoint, namespace, name string) openRequest {
	t.Helper()
	read, write := io.Pipe()
	asked := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(asked) }})
	url := server.url + "/apis/" + groupVersion + "/namespaces/" + namespace + "/cachebackends"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, read)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	transport := server.client.Transport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = patience
	server.client = &http.Client{Transport: transport}

	answers, errs := make(chan answer, 1), make(chan error, 1)
	go func() {
		got, err := server.send(request)
		errs <- err
		answers <- got
	}()
	select {
	case <-asked:
	case err := <-errs:
		t.Fatalf("beginning a request: %v", err)
	}
	rest := fmt.Sprintf(`{"apiVersion":%q,"kind":"CacheBackend","metadata":{"name":%q},"spec":{"runtime":%q}}`, groupVersion, name, v1alpha1.RuntimeVLLM)
	return openRequest{body: write, rest: rest, answer: answers, err: errs}
}

// finish sends the body and returns the answer.
func (r openRequest) finish(t *testing.T) answer {
	t.Helper()
	if _, err := io.WriteString(r.body, r.rest); err != nil {
		t.Fatalf("sending the rest of a request: %v", err)
	}
	r.body.Close()
	if err := <-r.err; err != nil {
		t.Fatalf("finishing a request: %v", err)
	}
	return <-r.answer
}
