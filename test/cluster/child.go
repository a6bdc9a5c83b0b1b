// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// child is a process that this one started. It has been reaped once done is closed.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // How it ended; set before done is closed.
}

// spawner runs functions on one OS thread that never ends: the kernel takes the end of the thread that started a child,
// not of the process, for the death of its parent.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func startChild(cmd *exec.Cmd) (*child, error) {
	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(cmd.Path), err)
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
