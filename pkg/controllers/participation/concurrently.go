// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	// concurrency is how many requests are under way at once.
	concurrency = 8
	// requestTimeout keeps one request that hangs from holding up the others' ticks.
	requestTimeout = 10 * time.Second
)

// concurrently makes some requests, a few at a time, and returns the error of each.
func concurrently(ctx context.Context, count int, request func(ctx context.Context, i int) error) []error {
	errs := make([]error, count)
	for i := range errs {
		errs[i] = context.Canceled // Of those that are not made any more.
	}
	workqueue.ParallelizeUntil(ctx, concurrency, count, func(i int) { errs[i] = request(ctx, i) })
	return errs
}

// inTime makes one request of the API server.
func inTime(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// summary is one error about many requests, nil if none of them failed.
func summary(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return failed[0]
	default:
		return several{error: failed[0], more: len(failed) - 1}
	}
}

// several is the first of some errors, which stands for all of them.
type several struct {
	error
	more int
}

func (s several) Error() string { return fmt.Sprintf("%v; and %d more like it", s.error, s.more) }
func (s several) Unwrap() error { return s.error }

// Cause is what does not change with the number of requests that fail.
func (s several) Cause() error { return s.error }
