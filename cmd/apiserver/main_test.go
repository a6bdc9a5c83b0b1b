// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
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

// TestTokenIsMounted finds the token for the cache server where the server looks for it by default.
func TestTokenIsMounted(t *testing.T) {
	data, err := os.ReadFile("../../artifacts/base/statefulset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.StatefulSet
	if err := yaml.UnmarshalStrict(data, &set); err != nil {
		t.Fatal(err)
	}
	volumes := map[string]corev1.Volume{}
	for _, volume := range set.Spec.Template.Spec.Volumes {
		volumes[volume.Name] = volume
	}
	want := newCommand().Flag("server-token-file").DefValue
	for _, mount := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		projected := volumes[mount.Name].Projected
		if projected == nil {
			continue
		}
		token := projected.Sources[0].ServiceAccountToken
		if got := filepath.Join(mount.MountPath, token.Path); got != want || token.Audience != "inferencecache.io/controller" || !mount.ReadOnly {
			t.Errorf("there is a token for %s in %s, want one in %s", token.Audience, got, want)
		}
		return
	}
	t.Error("no token is mounted")
}
