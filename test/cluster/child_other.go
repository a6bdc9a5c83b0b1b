// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

import "syscall"

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
