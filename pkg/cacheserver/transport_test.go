// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fixture "inferencecache.io/inferencecache/test/cacheserver"
)

// TestCAFileIsReadAgain replaces the server's authority, and then the file.
func TestCAFileIsReadAgain(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{TLS: true})
	file := filepath.Join(t.TempDir(), "ca.crt")
	client := newClient(t, Target{URL: server.URL(fixture.SnapshotPath), CAFile: file})
	expect := func(want string) {
		t.Helper()
		_, err := client.Snapshot(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	expect("reading the CA file")
	writeFile(t, file, "not a certificate")
	expect("holds no certificate")
	writeFile(t, file, string(server.CA()))
	expect("")
	if err := server.RenewCertificate(); err != nil {
		t.Fatal(err)
	}
	expect("failed to verify certificate")
	writeFile(t, file, string(server.CA()))
	expect("")
}

func TestServerName(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{TLS: true})
	file := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, file, string(server.CA()))
	for name, want := range map[string]string{"": "", "localhost": "", "cache.example": "not cache.example"} {
		_, err := newClient(t, Target{URL: server.URL(fixture.SnapshotPath), CAFile: file, ServerName: name}).Snapshot(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got error %v, want %q", name, err, want)
		}
	}
}

// TestUntrustedServer holds that a certificate is checked without a CA file as well, and gets no token.
func TestUntrustedServer(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{TLS: true})
	for path, call := range calls {
		err := call(t.Context(), newClient(t, Target{URL: server.URL(path), TokenFile: tokenFile(t, secret)}))
		if err == nil || !strings.Contains(err.Error(), "certificate") || server.Requests(path) != 0 {
			t.Errorf("%s: got error %v and %d requests", path, err, server.Requests(path))
		}
	}
}

// TestOldTLS meets a server that knows nothing newer than TLS 1.1.
func TestOldTLS(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{TLS: true})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		old := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, GetCertificate: server.GetCertificate}
		_ = tls.Server(connection, old).HandshakeContext(t.Context())
	}()
	file := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, file, string(server.CA()))
	_, err = newClient(t, Target{URL: "https://" + listener.Addr().String() + "/snapshot", CAFile: file}).Snapshot(t.Context())
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("got error %v", err)
	}
}

// TestSilentServer accepts a connection and says nothing. When the call has ended, so must the connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, scheme := range []string{"http", "https"} {
		ended := make(chan error, 1)
		go func() {
			connection, err := listener.Accept()
			if err != nil {
				ended <- err
				return
			}
			defer connection.Close()
			_ = connection.SetReadDeadline(time.Now().Add(time.Minute))
			_, err = io.Copy(io.Discard, connection)
			ended <- err
		}()
		url := scheme + "://" + listener.Addr().String() + "/snapshot"
		_, err := newClient(t, Target{URL: url, Timeout: 200 * time.Millisecond}).Snapshot(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no complete answer within 200ms") {
			t.Errorf("%s: got error %v", scheme, err)
		}
		if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection outlives the call", scheme)
		}
	}
}

func TestPlainServerForHTTPS(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	url := strings.Replace(server.URL(fixture.SnapshotPath), "http:", "https:", 1)
	if _, err := newClient(t, Target{URL: url}).Snapshot(t.Context()); err == nil {
		t.Error("got a snapshot")
	}
}
