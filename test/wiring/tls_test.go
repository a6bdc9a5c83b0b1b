// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"inferencecache.io/inferencecache/pkg/admission/pod"
)

// TestClientCertificates asserts that --webhook-client-ca-file keeps out everybody without a certificate of that
// authority.
func TestClientCertificates(t *testing.T) {
	// Without certificates, kube-apiserver does not get through either: pods cannot be waited for.
	clients, foreign := newAuthority(t, "webhook-clients"), newAuthority(t, "foreign")
	startServer(t, env.storeArgs, "--webhook-client-ca-file="+writeFile(t, "clients.crt", clients.pem))
	eventually(t, "the API server gets ready", env.APIServerReady)
	body := reviewOf(t, "default", newPod("default", "x"))
	for _, tt := range []struct {
		name         string
		certificates []tls.Certificate
		code         int
	}{
		{"none", nil, http.StatusUnauthorized},
		{"right", []tls.Certificate{clients.issue(t, "kube-apiserver", inOneHour())}, http.StatusOK},
		{"another authority's", []tls.Certificate{foreign.issue(t, "kube-apiserver", inOneHour())}, http.StatusUnauthorized},
		{"expired", []tls.Certificate{clients.issue(t, "kube-apiserver", time.Now().Add(-time.Hour))}, http.StatusUnauthorized},
		{"the server's own", []tls.Certificate{ownCertificate(t)}, http.StatusUnauthorized},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := webhookClient(t, tt.certificates...)
			// Go leaves out certificates of authorities that the server does not ask for. Not everybody does.
			tlsConfig := client.Transport.(*http.Transport).TLSClientConfig
			tlsConfig.Certificates = nil
			if len(tt.certificates) > 0 {
				tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tt.certificates[0], nil }
			}
			code, answer, err := post(t.Context(), client, body)
			if err != nil || code != tt.code {
				t.Errorf("got %d %s (error %v), want %d", code, answer, err, tt.code)
			}
		})
	}
}

// TestTransport asserts that the webhook speaks TLS of our days and nothing else, and that other things on its port harm
// nobody.
func TestTransport(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	client, pid := webhookClient(t), env.APIServerPID()
	t.Run("plain HTTP", func(t *testing.T) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+webhookAddress()+pod.Path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("got %s", response.Status)
		}
	})
	t.Run("TLS 1.1", func(t *testing.T) {
		config := client.Transport.(*http.Transport).TLSClientConfig.Clone()
		config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		dialer := &tls.Dialer{Config: config}
		if connection, err := dialer.DialContext(t.Context(), "tcp", webhookAddress()); err == nil {
			connection.Close()
			t.Error("the handshake succeeds")
		} else if !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("noise", func(t *testing.T) {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", webhookAddress())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, strings.Repeat("\x00noise\xff", 1000)); err != nil {
			t.Fatal(err)
		}
		if err := connection.SetReadDeadline(time.Now().Add(requestTimeout)); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if _, err := io.Copy(io.Discard, connection); errors.As(err, &timeout) && timeout.Timeout() {
			t.Error("the connection stays open")
		}
	})
	t.Run("idle connections", func(t *testing.T) {
		for range 200 {
			connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", webhookAddress())
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
		}
		expectAlive(t, webhookClient(t), pid, namespace)
	})
	expectAlive(t, client, pid, namespace)
}
