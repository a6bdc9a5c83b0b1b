// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os/exec"
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
	if err := StartProcess(cmd); err != nil {
		return nil, err
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
