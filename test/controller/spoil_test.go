// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// answers is a fault of an API server that answers with an error.
func answers(code int, reason metav1.StatusReason, retryAfter int) handler {
	return func(call *call, _ sender) (*http.Response, error) {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "spoilt by the test",
		})
		if err != nil {
			return nil, err
		}
		header := http.Header{"Content-Type": {"application/json"}}
		if retryAfter > 0 {
			header.Set("Retry-After", strconv.Itoa(retryAfter))
		}
		return &http.Response{
			StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: call.Request,
		}, nil
	}
}

// resets is a fault of a connection before a request has arrived.
func resets(*call, sender) (*http.Response, error) {
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// loses is a fault of a connection after a request has arrived.
func loses(call *call, send sender) (*http.Response, error) {
	response, err := send(call.Request)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return resets(call, send)
}

// hangs is a server that does not answer for as long as somebody waits.
func hangs(call *call, _ sender) (*http.Response, error) {
	<-call.Context().Done()
	return nil, call.Context().Err()
}

// delays is a server that takes its time.
func delays(call *call, send sender) (*http.Response, error) {
	select {
	case <-call.Context().Done():
		return nil, call.Context().Err()
	case <-time.After(300 * time.Millisecond):
		return send(call.Request)
	}
}

// faults spoils the first call of each verb and resource, and lets later ones through.
type faults struct {
	spoil handler
	// on says of what a call is whether it is meant.
	on func(what string) bool

	mu   sync.Mutex
	done sets.Set[string]
}

func (f *faults) handle(call *call, send sender) (*http.Response, error) {
	if f.on(call.what) && f.hits(call.what) {
		return f.spoil(call, send)
	}
	return send(call.Request)
}

func (f *faults) hits(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.done.Has(what)
	f.done.Insert(what)
	return first
}

// spoilt is what has been spoilt.
func (f *faults) spoilt() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sets.List(f.done)
}
