// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package inferencecache holds the internal types of the inferencecache.io API: the hub
// to which every served version converts. Fields are documented in the served version.
package inferencecache
