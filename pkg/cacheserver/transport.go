// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
)

// maxHeaderBytes is far above what the cache server sends.
const maxHeaderBytes = 16 << 10

// newHTTPClient makes a client for calls that are seldom and carry a token.
//
// There is a connection for each call. At one call a second or less that costs nothing, and
// it spares what kept connections bring with them: a silent second try of net/http after the
// server closed one, calls that stay with one pod of a Service, and certificates that are
// checked against yesterday's authority.
//
// Proxies of the environment are not asked. They are there for the way out of a cluster, and
// would see the token of a call that stays inside.
func newHTTPClient(target Target) *http.Client {
	// The transport goes on connecting when a call has run out of time. Against a server that
	// accepts connections and says nothing that would be for ever. It has more time than the
	// call, so that running out of time always gives the same error.
	dialer := &net.Dialer{Timeout: 2 * target.Timeout}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext,
			DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return target.dialTLS(ctx, dialer, network, address)
			},
			DisableCompression:     true,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeaderBytes,
			Protocols:              protocols,
			Proxy:                  nil,
		},
		// The token is for this URL and no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (t Target) dialTLS(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	roots, err := t.roots()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: t.ServerName}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
}

// roots returns the certificates to trust, nil for the system's.
func (t Target) roots() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("the CA file %s holds no certificate", t.CAFile)
	}
	return roots, nil
}
