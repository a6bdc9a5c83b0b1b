// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry is the folder of the stored kinds: what is in their packages is tested
// together here.
package registry
