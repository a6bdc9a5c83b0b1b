// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the thread that starts it ends, whatever ends it.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

// startTime returns when a process began, in ticks since the machine started, or "" when it is gone or a zombie.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses, with any character in it: the rest follows the last one.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, start = 0, 19
	if len(fields) <= start || fields[state][0] == 'Z' || fields[state][0] == 'X' {
		return ""
	}
	return string(fields[start])
}
