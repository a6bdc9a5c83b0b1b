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
	workqueue.ParallelizeUntil(ctx, concurrency, count, func(i int) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		errs[i] = request(ctx, i)
	})
	return errs
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
		return fmt.Errorf("%w; and %d more like it", failed[0], len(failed)-1)
	}
}
