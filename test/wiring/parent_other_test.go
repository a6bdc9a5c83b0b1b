// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wiring

import "syscall"

// dieWithParent does nothing: only Linux can tie a child's life to its parent's.
func dieWithParent() *syscall.SysProcAttr { return nil }
