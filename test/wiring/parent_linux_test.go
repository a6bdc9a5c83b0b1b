// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import "syscall"

// dieWithParent makes the kernel kill a child when this process is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
