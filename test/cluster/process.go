// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"syscall"
)

// Ports of further processes lie below those that a cluster takes, and below those of outgoing connections.
const firstPort, lastPort = 12000, 20000

// FreePort returns a loopback port for a process beside the cluster.
func FreePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, errors.New("no free port")
}

// StartProcess starts a process that a test needs beside the cluster. It is killed with this process, however that ends.
// The caller waits for the command as usual.
func StartProcess(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr = dieWithParent(cmd.SysProcAttr)
	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return nil
}
