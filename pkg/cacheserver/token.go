// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/klog/v2"
)

// maxTokenBytes is far above the size of a token of a service account.
const maxTokenBytes = 64 << 10

// tokenIfUsable returns the token, or none when the file cannot be used.
func (c *Client) tokenIfUsable(ctx context.Context) string {
	token, err := readToken(c.target.TokenFile)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Calling the cache server without a token", "url", c.target.URL)
	}
	return token
}

// readToken returns the token in a file, without the white space around it. A file that is
// absent or empty has none, which is no error.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	// A pipe would keep the call waiting, beyond its time.
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the token file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("the token file %s is not a regular file", file)
	}
	if info.Size() > maxTokenBytes {
		return "", fmt.Errorf("the token file %s is larger than %d bytes, which is no token", file, maxTokenBytes)
	}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // It went away in between.
	}
	if err != nil {
		return "", fmt.Errorf("reading the token file: %w", err)
	}
	token := bytes.TrimSpace(content)
	if bytes.ContainsFunc(token, notOfToken) {
		return "", fmt.Errorf("the token file %s holds something else than one token", file)
	}
	return string(token), nil
}

// notOfToken reports what an Authorization header cannot carry as a part of one token.
func notOfToken(r rune) bool { return r <= ' ' || r > '~' }
