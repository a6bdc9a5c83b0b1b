// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// Main runs the tests of a package on a cluster that they share, and returns the exit code for TestMain. What setUp returns
// is called after the tests, with whether they have failed, and may be nil; it is called after a setUp that has failed, too.
func Main(m *testing.M, options Options, setUp func(context.Context, *Cluster) (tearDown func(failed bool) error, err error)) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := Start(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 1
	tearDown, err := setUp(ctx, c)
	if err == nil {
		stop() // The cluster ends with this process, however that ends.
		raiseParallelism()
		if code = m.Run(); code != 0 {
			fmt.Fprintf(os.Stderr, "the end of the API server's log:\n%s\n", c.APIServerLogTail())
		}
	}
	if tearDown != nil {
		err = errors.Join(err, tearDown(code != 0))
	}
	if err = errors.Join(err, c.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// raiseParallelism lets more tests run at a time than there are processors, unless the command line says how many: most of
// the time they wait for the cluster.
func raiseParallelism() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
}
