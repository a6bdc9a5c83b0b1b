// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

const (
	// maxExcerptBytes is how much of what a server says is repeated.
	maxExcerptBytes = 1 << 10
	// maxErrorBytes leaves room for our own words around an excerpt.
	maxErrorBytes = 2 << 10
)

var errRepeatsToken = errors.New("the answer repeats the token and is not looked at")

// StatusError is an answer with a status that is no success of the call.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Hint is what the likely cause is, in our words. It may be empty.
	Hint string
	// Body is what the server said, on one line and at most 1 KiB of it. It may be empty.
	Body string
}

// Error has everything that is known.
func (e *StatusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code)))
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// statusError reads the beginning of an answer that is no success. A body that fails to come
// leaves the status, which says more.
func (c *Client) statusError(response *http.Response, token string) error {
	// So much is read that a token which begins in the excerpt is seen as a whole.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxExcerptBytes+int64(len(token))))
	return &StatusError{
		Code: response.StatusCode,
		Hint: c.hint(response, token),
		Body: excerpt(string(body), token),
	}
}

// hint names the likely cause of a status.
func (c *Client) hint(response *http.Response, token string) string {
	file := c.target.TokenFile
	switch code := response.StatusCode; {
	case code/100 == 3:
		return fmt.Sprintf("redirects to %q, which is not followed because the token would be sent on",
			excerpt(response.Header.Get("Location"), token))
	case code == http.StatusUnauthorized && token != "":
		return fmt.Sprintf("the token in %s has expired, or is for another audience", file)
	case code == http.StatusUnauthorized && file != "":
		return fmt.Sprintf("no token was sent: there is no usable one in %s, the volume may be missing", file)
	case code == http.StatusUnauthorized:
		return "no token was sent: no token file is configured"
	case code == http.StatusForbidden:
		return "the cache server does not admit the service account of the token"
	case code == http.StatusServiceUnavailable:
		return "this may pass"
	}
	return ""
}

// localAddress finds our own end of a connection in the text of an error.
var localAddress = regexp.MustCompile(`\S+:\d+->`)

// presentable returns an error that may be shown to anybody: without the token, which the
// server may have repeated, and of a bounded length. Our own port is left out, so that the
// same failure reads the same each time.
func presentable(err error, token string) error {
	text := err.Error()
	if len(text) > maxErrorBytes || token != "" && strings.Contains(text, token) {
		return errors.New(excerpt(text, token))
	}
	return presented{text: localAddress.ReplaceAllString(text, ""), error: err}
}

// presented is an error with another text.
type presented struct {
	error
	text string
}

func (p presented) Error() string { return p.text }
func (p presented) Unwrap() error { return p.error }

// excerpt makes the beginning of a server's text fit to be repeated: printable and on one
// line. Of a text with the token it gives nothing.
func excerpt(text, token string) string {
	if token != "" && strings.Contains(text, token) {
		return "(withheld, it repeats the token)"
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxExcerptBytes)], "")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
