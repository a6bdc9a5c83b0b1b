// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// DefaultTimeout is how long a call may take as a whole: connecting, headers and body.
	DefaultTimeout = 5 * time.Second

	// MaxSnapshotBytes bounds an index that is read. Some 1,000 replicas take 280 KB.
	MaxSnapshotBytes = 64 << 20
	// MaxProbeBytes bounds the answer to a probe.
	MaxProbeBytes = 64 << 10
)

// Target is one of the cache server's endpoints and how to reach it.
type Target struct {
	// URL is the whole URL of the endpoint, http or https.
	URL string
	// TokenFile holds the bearer token. It is read again for each call, since the kubelet
	// rotates it. Without such a file calls go out without a token.
	TokenFile string
	// CAFile holds the certificates to trust in place of the system's, empty for those. It
	// is read again for each call, so that it may be replaced at any time.
	CAFile string
	// ServerName is the name that the certificate must have, empty for the host of URL.
	ServerName string
	// Timeout is how long a call may take as a whole, DefaultTimeout if it is 0. The context
	// of a call may end it sooner.
	Timeout time.Duration
}

// Client calls one endpoint of the cache server. It is safe for concurrent use. It never
// tries a second time and never follows a redirect. Its errors name the URL and the cause,
// and never hold the token.
type Client struct {
	target Target
	http   *http.Client
}

// New makes a client of a target. The error is about a URL that cannot be used.
func New(target Target) (*Client, error) {
	if err := validateURL(target.URL); err != nil {
		return nil, err
	}
	target.Timeout = cmp.Or(target.Timeout, DefaultTimeout)
	return &Client{target: target, http: newHTTPClient(target)}, nil
}

// validateURL does not repeat what it refuses, which may hold a password.
func validateURL(raw string) error {
	parsed, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("the URL of the cache server cannot be parsed: %w", withoutURL(err))
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("the URL of the cache server must begin with http:// or https://")
	case parsed.Hostname() == "":
		return fmt.Errorf("the URL of the cache server has no host")
	case parsed.User != nil:
		return fmt.Errorf("the URL of the cache server must not hold a user or password, which a token file replaces")
	case parsed.Fragment != "":
		return fmt.Errorf("the URL of the cache server must not have a fragment (#)")
	}
	return nil
}

// Snapshot reads the index. With a token file that cannot be used the call goes out without
// a token, and says so in the log.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	var snapshot *Snapshot
	err := c.call(ctx, call{
		method:    http.MethodGet,
		token:     c.tokenIfUsable(ctx),
		maxBytes:  MaxSnapshotBytes,
		succeeded: func(code int) bool { return code == http.StatusOK },
		read: func(body io.Reader) (err error) {
			snapshot, err = decodeSnapshot(body)
			return err
		},
	})
	return snapshot, err
}

// Probe asks the server to try itself. An answer that cannot be trusted is an error. With a
// token file that cannot be used the server is not called.
func (c *Client) Probe(ctx context.Context, request ProbeRequest) (*ProbeResult, error) {
	token, err := readToken(c.target.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("not calling %s: %w", c.target.URL, err)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request of a probe: %w", err)
	}
	var result *ProbeResult
	err = c.call(ctx, call{
		method:    http.MethodPost,
		body:      body,
		token:     token,
		maxBytes:  MaxProbeBytes,
		succeeded: success,
		read: func(body io.Reader) error {
			answer, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			// What a stage has to say ends up in conditions, where many may read it.
			if token != "" && bytes.Contains(answer, []byte(token)) {
				return errRepeatsToken
			}
			result, err = decodeProbe(answer, request.Backend)
			return err
		},
	})
	return result, err
}

// Push replaces the policies of the server. With a token file that cannot be used the call
// goes out without a token, and says so in the log.
func (c *Client) Push(ctx context.Context, state *PolicyState) error {
	body, err := state.encode()
	if err != nil {
		return err
	}
	return c.call(ctx, call{
		method:    http.MethodPost,
		body:      body,
		token:     c.tokenIfUsable(ctx),
		succeeded: success,
		read:      func(io.Reader) error { return nil },
	})
}

func success(code int) bool { return code/100 == 2 }
