// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	schemeSeparator = "://"
	maxPort         = 65535
	// maxQuoted bounds how much of an endpoint an error repeats: endpoints have no upper
	// length, but an error ends up in a condition, which has one.
	maxQuoted = 64
)

// ErrEndpointMissing is the error for an endpoint that is empty or nothing but white
// space.
var ErrEndpointMissing = errors.New("is empty; set it to host:port")

// Endpoint is the address of a remote tier in its parts.
type Endpoint struct {
	// Scheme is in lower case, and empty when the text had none.
	Scheme string
	// Host has no brackets around it. It is a name or an address; nothing resolved it.
	Host string
	Port int
}

// String returns the canonical form of the endpoint, which parses to an equal Endpoint.
func (e Endpoint) String() string {
	host := e.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	address := host + ":" + strconv.Itoa(e.Port)
	if e.Scheme == "" {
		return address
	}
	return e.Scheme + schemeSeparator + address
}

// ParseEndpoint parses the endpoint of a provider's tier: host:port, and for providers
// that have a scheme scheme://host:port too. White space around the text is ignored. The
// host is not checked beyond its delimiters, since only a dial can tell whether it exists.
// Errors say what to change and suit as the detail of a field error.
func ParseEndpoint(provider v1alpha1.StorageProvider, text string) (Endpoint, error) {
	protocol, known := ProtocolOf(provider)
	if !known {
		return Endpoint{}, fmt.Errorf("cannot be read for the unknown provider %s", quote(string(provider)))
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return Endpoint{}, ErrEndpointMissing
	}
	if i := strings.IndexFunc(trimmed, isBlank); i >= 0 {
		return Endpoint{}, fmt.Errorf("contains white space or a control character after %s; remove it", quote(trimmed[:i]))
	}
	scheme, address, err := cutScheme(provider, protocol, trimmed)
	if err != nil {
		return Endpoint{}, err
	}
	if i := strings.IndexAny(address, "/?#"); i >= 0 {
		return Endpoint{}, fmt.Errorf("must end with the port; remove %s", quote(address[i:]))
	}
	host, portText, err := cutPort(address)
	if err != nil {
		return Endpoint{}, err
	}
	port, err := parsePort(portText)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{Scheme: scheme, Host: host, Port: port}, nil
}

func isBlank(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r)
}

// cutScheme splits a scheme off and checks that the provider knows it. The only scheme of
// a provider is the name of its protocol, and Redis clients are given no scheme at all.
func cutScheme(provider v1alpha1.StorageProvider, protocol Protocol, text string) (scheme, rest string, err error) {
	before, after, found := strings.Cut(text, schemeSeparator)
	if !found {
		return "", text, nil
	}
	scheme = strings.ToLower(before)
	if protocol == ProtocolRESP {
		return "", "", fmt.Errorf("has the scheme %s, and %s takes none; use host:port", quote(before), provider)
	}
	if scheme != string(protocol) {
		return "", "", fmt.Errorf("has the scheme %s, which %s does not take; use host:port or %s://host:port",
			quote(before), provider, protocol)
	}
	if strings.Contains(after, schemeSeparator) {
		return "", "", fmt.Errorf("has more than one scheme; use host:port or %s://host:port", protocol)
	}
	return scheme, after, nil
}

// cutPort splits host:port or [IPv6 address]:port.
func cutPort(address string) (host, port string, err error) {
	if strings.HasPrefix(address, "[") {
		return cutBracketed(address)
	}
	host, port, found := strings.Cut(address, ":")
	switch {
	case !found:
		return "", "", errors.New("has no port; use host:port")
	case strings.Contains(port, ":"):
		return "", "", errors.New("has more than one colon; use host:port, with an IPv6 address in brackets")
	case host == "":
		return "", "", errors.New("has no host; use host:port")
	case port == "":
		return "", "", errors.New("has no port after the colon; use host:port")
	}
	return host, port, nil
}

func cutBracketed(address string) (host, port string, err error) {
	host, rest, closed := strings.Cut(address[1:], "]")
	switch {
	case !closed:
		return "", "", errors.New("has a bracket that is not closed; use [address]:port")
	case host == "":
		return "", "", errors.New("has nothing between its brackets; use [address]:port")
	case !strings.Contains(host, ":"):
		// Brackets around a name would hide the namespace of a Service from
		// ServiceNamespace.
		return "", "", errors.New("has brackets around something else than an IPv6 address; remove them")
	}
	port, found := strings.CutPrefix(rest, ":")
	switch {
	case !found || port == "":
		return "", "", errors.New("has no port after the bracket; use [address]:port")
	case strings.Contains(port, ":"):
		return "", "", errors.New("has more than a port after the bracket; use [address]:port")
	}
	return host, port, nil
}

// parsePort is stricter than strconv: a sign is no part of a port. Leading zeros are
// harmless and allowed.
func parsePort(text string) (int, error) {
	for _, r := range text {
		if r < '0' || r > '9' {
			return 0, fmt.Errorf("has the port %s; use a number from 1 to %d", quote(text), maxPort)
		}
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > maxPort {
		return 0, fmt.Errorf("has the port %s; use a number from 1 to %d", quote(text), maxPort)
	}
	return port, nil
}

// quote repeats a part of an endpoint in an error, shortened and without raw control
// characters.
func quote(text string) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:maxQuoted], "")) + "..."
}
