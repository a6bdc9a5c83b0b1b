// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version knows which build this is. Kubernetes' own version package is left
// alone on purpose: its value decides which features the libraries switch on.
package version

import "runtime/debug"

// version is set by the linker: -X inferencecache.io/inferencecache/pkg/version.version=v1.2.3.
var version = "v0.0.0-dev"

// String returns the version of the build and, where it is known, its commit.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return version + "+" + setting.Value[:min(len(setting.Value), 12)]
		}
	}
	return version
}
