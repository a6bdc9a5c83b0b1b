// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// argument is an argument of the server as the manifests list it.
var argument = regexp.MustCompile(`(?m)^\s*- (--[a-z0-9-]+=\S*)`)

// TestManifestsUseFlagsThatExist parses every argument that a manifest gives to the server.
func TestManifestsUseFlagsThatExist(t *testing.T) {
	found := 0
	for _, root := range []string{"../../artifacts/base", "../../artifacts/overlays"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range argument.FindAllSubmatch(data, -1) {
				found++
				if err := newCommand().ParseFlags([]string{string(match[1])}); err != nil {
					t.Errorf("%s: %s: %v", path, match[1], err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("no arguments found")
	}
}
