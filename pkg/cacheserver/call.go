// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// call is one request and what becomes of its answer.
type call struct {
	method string
	// body is JSON, nil for none.
	body []byte
	// token may be empty.
	token string
	// maxBytes is how much of an answer is read before the call has failed.
	maxBytes int64
	// succeeded says whether read may look at an answer with that status.
	succeeded func(code int) bool
	read      func(body io.Reader) error
}

func (c *Client) call(ctx context.Context, call call) error {
	timeout := c.target.Timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("no complete answer within %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()

	if err := c.exchange(ctx, call); err != nil {
		return fmt.Errorf("%s %s: %w", call.method, c.target.URL, presentable(err, call.token))
	}
	return nil
}

// exchange sends the request and reads the answer.
func (c *Client) exchange(ctx context.Context, call call) error {
	request, err := http.NewRequestWithContext(ctx, call.method, c.target.URL, bytes.NewReader(call.body))
	if err != nil {
		return withoutURL(err)
	}
	request.Header.Set("Accept", "application/json")
	if call.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if call.token != "" {
		request.Header.Set("Authorization", "Bearer "+call.token)
	}

	response, err := c.http.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()

	if !call.succeeded(response.StatusCode) {
		return c.statusError(response, call.token)
	}
	err = call.read(http.MaxBytesReader(nil, response.Body, call.maxBytes))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("the answer is larger than %d bytes", tooLarge.Limit)
	}
	return err
}

// withoutURL takes away what net/url and net/http put around an error, which names the URL.
func withoutURL(err error) error {
	if urlError, ok := errors.AsType[*url.Error](err); ok {
		return urlError.Err
	}
	return err
}
