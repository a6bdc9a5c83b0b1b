// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cacheserver gives tests a cache server over HTTP. It checks tokens and requests as strictly as the real one, says
// what a test tells it to, and remembers what it was asked.
package cacheserver

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// The paths that are served.
const (
	SnapshotPath = "/snapshot"
	ProbePath    = "/probe"
	PolicyPath   = "/policy"
)

// Options say how the server is reached and who may call it.
type Options struct {
	// Reviews is where tokens are reviewed. Without it nobody is asked for a token.
	Reviews authenticationclient.TokenReviewInterface
	// AllowedUsers are the names of the users that may call.
	AllowedUsers []string
	// TLS is for https, with a certificate for 127.0.0.1 and localhost that stands for its own authority.
	TLS bool
}

// Server is a cache server on a port of 127.0.0.1 that stays the same when it is stopped and started again. Its methods are
// safe for concurrent use, except Start and Stop.
type Server struct {
	options Options
	address string
	running *http.Server

	mutex       sync.Mutex
	certificate tls.Certificate
	behaviors   map[string]Behavior
	requests    map[string]int
	headers     map[string]http.Header
	snapshot    []byte
	prober      func(ProbeRequest) ProbeAnswer
	probes      []ProbeRequest
	policies    []Policies
}

// New makes a server with an empty index that passes every probe, and starts it.
func New(options Options) (*Server, error) {
	s := &Server{
		options:   options,
		address:   "127.0.0.1:0",
		behaviors: map[string]Behavior{},
		requests:  map[string]int{},
		headers:   map[string]http.Header{},
		prober:    Passing,
	}
	s.SetSnapshot(Snapshot{})
	if options.TLS {
		if err := s.RenewCertificate(); err != nil {
			return nil, err
		}
	}
	return s, s.Start()
}

// portPatience is how long a server that is started again waits for its port, which a connection from this machine may
// have got meanwhile.
const portPatience = time.Minute

// Start starts a server that was stopped, on the port that it had.
func (s *Server) Start() error {
	listener, err := net.Listen("tcp", s.address)
	for since := time.Now(); errors.Is(err, syscall.EADDRINUSE) && time.Since(since) < portPatience; {
		time.Sleep(100 * time.Millisecond)
		listener, err = net.Listen("tcp", s.address)
	}
	if err != nil {
		return fmt.Errorf("starting the cache server: %w", err)
	}
	s.address = listener.Addr().String()
	if s.options.TLS {
		listener = tls.NewListener(listener, &tls.Config{GetCertificate: s.GetCertificate})
	}
	// Clients that break off are what tests are about, and nothing to report.
	s.running = &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: log.New(io.Discard, "", 0)}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.running)
	return nil
}

// Stop ends the server together with its open connections. From then on connections are refused.
func (s *Server) Stop() error { return s.running.Close() }

// URL returns the URL of a path.
func (s *Server) URL(path string) string {
	if s.options.TLS {
		return "https://" + s.address + path
	}
	return "http://" + s.address + path
}

// Requests returns how many requests for a path have arrived, whatever became of them.
func (s *Server) Requests(path string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.requests[path]
}

// LastHeader returns the header of the last request for a path, nil if there was none.
func (s *Server) LastHeader(path string) http.Header {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.headers[path]
}

// SetSnapshot replaces the index.
func (s *Server) SetSnapshot(snapshot Snapshot) { s.SetSnapshotBytes(snapshot.Encode()) }

// SetSnapshotBytes replaces what is answered to a request for the index.
func (s *Server) SetSnapshotBytes(body []byte) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.snapshot = bytes.Clone(body)
}

// SetProber replaces what answers probes.
func (s *Server) SetProber(prober func(ProbeRequest) ProbeAnswer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.prober = prober
}

// Probes returns the probes that were answered, oldest first.
func (s *Server) Probes() []ProbeRequest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.probes[:len(s.probes):len(s.probes)]
}

// Policies returns what was accepted as policies, oldest first.
func (s *Server) Policies() []Policies {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.policies[:len(s.policies):len(s.policies)]
}

// serve counts a request, and hands it to the endpoint or to what stands in for it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	// The body is read first, since net/http notices a client that leaves only then.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](err)
	if err != nil && !isTooLarge {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))

	s.mutex.Lock()
	s.requests[r.URL.Path]++
	s.headers[r.URL.Path] = r.Header.Clone()
	behavior := s.behaviors[r.URL.Path]
	s.mutex.Unlock()

	handler := s.endpoint(r.URL.Path)
	if isTooLarge {
		handler = answer(http.StatusBadRequest, tooLarge.Error())
	}
	if behavior != nil {
		handler = behavior(handler)
	}
	handler.ServeHTTP(w, r)
}
