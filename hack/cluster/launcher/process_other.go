// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package launcher

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux can tie a child's life to its parent's. After a kill -9 of the launcher, "down"
// cleans up.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

// startTime returns when a process began, or "" when it is gone.
func startTime(pid int) string {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
