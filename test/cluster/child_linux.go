// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "syscall"

// dieWithParent makes the kernel kill the child when a test that started it is killed.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
