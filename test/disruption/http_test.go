// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// requestTimeout is above the minute that the servers give a request.
const requestTimeout = 90 * time.Second

// endpoint is a server that a test talks to below the level of clients, which would hide answers by trying again. Each
// request has a connection of its own, so that none is left over from a server that has gone.
type endpoint struct {
	url    string
	client *http.Client
}

// answer is what a server said.
type answer struct {
	code int
	body string
}

// aggregated is kube-apiserver, asked as an administrator.
func aggregated(t *testing.T) endpoint {
	t.Helper()
	return newEndpoint(t, host.RESTConfig())
}

// direct is our API server, asked as an administrator.
func direct(t *testing.T) endpoint {
	t.Helper()
	return newEndpoint(t, directConfig(host.RESTConfig(), host.APIServer.Port))
}

// directConfig makes a configuration for kube-apiserver one for our server on that port.
func directConfig(config *rest.Config, port int) *rest.Config {
	config.Host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	config.CAFile, config.CAData = host.APIServer.CAFile, nil
	return config
}

func newEndpoint(t *testing.T, config *rest.Config) endpoint {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint{
		url:    config.Host,
		client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}},
	}
}

// do sends a request and returns the answer, or why there was none.
func (e endpoint) do(ctx context.Context, method, path, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, e.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return e.send(request)
}

func (e endpoint) send(request *http.Request) (answer, error) {
	response, err := e.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer to %s %s: %w", request.Method, request.URL.Path, err)
	}
	return answer{code: response.StatusCode, body: string(body)}, nil
}

// askAs lists backends as a front proxy does it for a user.
func (e endpoint) askAs(ctx context.Context, user, group string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/apis/"+groupVersion+"/cachebackends", nil)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("X-Remote-User", user)
	request.Header.Set("X-Remote-Group", group)
	return e.send(request)
}

// ask is do for requests that must have an answer.
func (e endpoint) ask(t *testing.T, method, path, body string) answer {
	t.Helper()
	a, err := e.do(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// message is what kubectl would show: the message of a Status, or the text.
func (a answer) message() string {
	var status metav1.Status
	if json.Unmarshal([]byte(a.body), &status) == nil && status.Message != "" {
		return status.Message
	}
	return strings.TrimSpace(a.body)
}
