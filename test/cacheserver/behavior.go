// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"fmt"
	"net/http"
)

// Behavior stands before an endpoint, its authentication included.
type Behavior func(endpoint http.Handler) http.Handler

// SetBehavior makes a path behave otherwise, or as it should again with nil.
func (s *Server) SetBehavior(path string, behavior Behavior) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.behaviors[path] = behavior
}

// Answer answers everything alike.
func Answer(code int, body string) Behavior {
	return func(http.Handler) http.Handler { return answer(code, body) }
}

// Redirect sends everybody to another URL.
func Redirect(code int, url string) Behavior {
	return func(http.Handler) http.Handler { return http.RedirectHandler(url, code) }
}

// HoldUntil lets requests wait until the channel is closed. Those that are still there are then answered.
func HoldUntil(released <-chan struct{}) Behavior {
	return func(endpoint http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-released:
				endpoint.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})
	}
}

// Flood answers with so many bytes, all of them the same, as long as the client reads on.
func Flood(code int, filler byte, size int64) Behavior {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			chunk := bytes.Repeat([]byte{filler}, 64<<10)
			for left := size; left > 0; left -= int64(len(chunk)) {
				if _, err := w.Write(chunk[:min(left, int64(len(chunk)))]); err != nil {
					return
				}
			}
		})
	}
}

// Stall sends the beginning of a body, and no more until the channel is closed or the client leaves.
func Stall(beginning string, released <-chan struct{}) Behavior {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(beginning))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-released:
			case <-r.Context().Done():
			}
		})
	}
}

// Drop closes the connection without an answer.
func Drop() Behavior {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}
}

// Repeat answers with the header that the request carried, its token included.
func Repeat(code int) Behavior {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			fmt.Fprintf(w, "got %v", r.Header)
		})
	}
}

func answer(code int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	})
}
