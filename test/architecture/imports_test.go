// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package architecture checks the direction of imports.
package architecture

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "inferencecache.io/inferencecache/"

// allowed lists for each of our packages which of our packages it may import directly. An
// entry that ends with a slash stands for everything below it. Imports point down only: a
// package may appear to the right of those that stand above it and not of those below.
var allowed = map[string][]string{
	"cmd/apiserver":  {"pkg/apiserver", "pkg/version"},
	"cmd/controller": {"pkg/apis/inferencecache/v1alpha1", "pkg/cacheserver", "pkg/controllers/", "pkg/version"},

	"pkg/apiserver": {
		"pkg/adapters/engine", "pkg/admission/pod", "pkg/apis/inferencecache/", "pkg/apiserver/etcd",
		"pkg/apiserver/storeidentity", "pkg/cacheserver", "pkg/generated/openapi", "pkg/registry/", "pkg/version",
	},
	"pkg/apiserver/etcd":          {},
	"pkg/apiserver/storeidentity": {},

	"pkg/admission/pod": {
		"pkg/adapters/binding", "pkg/adapters/engine", "pkg/apis/inferencecache", "pkg/apis/inferencecache/v1alpha1",
	},

	"pkg/controllers/cachebackend": {"pkg/adapters", "pkg/adapters/", "pkg/apis/inferencecache/v1alpha1", "pkg/cacheserver"},
	"pkg/controllers/enginepod":    {"pkg/adapters/engine", "pkg/apis/inferencecache/v1alpha1"},
	// The quota that a tenant's status judges by is the one that is pushed.
	"pkg/controllers/participation": {
		"pkg/apis/inferencecache/v1alpha1", "pkg/cacheserver", "pkg/controllers/outcome", "pkg/controllers/policy",
	},
	"pkg/controllers/policy":  {"pkg/apis/inferencecache/v1alpha1", "pkg/cacheserver", "pkg/controllers/outcome"},
	"pkg/controllers/outcome": {},

	"pkg/registry/cachebackend": {
		"pkg/adapters", "pkg/adapters/binding", "pkg/apis/inferencecache",
		"pkg/apis/inferencecache/v1alpha1", "pkg/apis/inferencecache/validation", "pkg/registry/resource",
	},
	"pkg/registry/cacheindex":  {"pkg/apis/inferencecache", "pkg/cacheserver", "pkg/registry/resource"},
	"pkg/registry/cachepolicy": {"pkg/apis/inferencecache", "pkg/apis/inferencecache/validation", "pkg/registry/resource"},
	"pkg/registry/cachetenant": {"pkg/apis/inferencecache", "pkg/apis/inferencecache/validation", "pkg/registry/resource"},
	"pkg/registry/resource":    {"pkg/adapters/quantity", "pkg/apis/inferencecache", "pkg/apis/inferencecache/v1alpha1", "pkg/apis/inferencecache/validation"},
	"pkg/registry":             {},

	"pkg/apis/inferencecache/validation": {"pkg/adapters", "pkg/adapters/", "pkg/apis/inferencecache", "pkg/apis/inferencecache/v1alpha1"},
	"pkg/apis/inferencecache/install":    {"pkg/apis/inferencecache", "pkg/apis/inferencecache/v1alpha1"},
	"pkg/apis/inferencecache/fuzzer":     {"pkg/apis/inferencecache"},

	"pkg/adapters":          {"pkg/adapters/", "pkg/apis/inferencecache/v1alpha1"},
	"pkg/adapters/engine":   {"pkg/adapters/binding", "pkg/adapters/quantity", "pkg/apis/inferencecache/v1alpha1"},
	"pkg/adapters/storage":  {"pkg/adapters/binding", "pkg/adapters/quantity", "pkg/apis/inferencecache/v1alpha1"},
	"pkg/adapters/quantity": {},
	"pkg/adapters/binding":  {"pkg/apis/inferencecache/v1alpha1"},

	"pkg/cacheserver": {},

	"pkg/generated/": {"pkg/apis/inferencecache/v1alpha1", "pkg/generated/"},
	// The generated conversions live beside the served types.
	"pkg/apis/inferencecache/v1alpha1": {"pkg/apis/inferencecache"},
	"pkg/apis/inferencecache":          {},
	"pkg/version":                      {},

	"hack/": {"pkg/generated/openapi"},
	"test/": {"pkg/", "test/"},
}

// foreign lists what must not be linked into a package, however indirectly.
var foreign = map[string][]string{
	"pkg/adapters":            {"k8s.io/client-go", "k8s.io/apiserver", "go.etcd.io"},
	"pkg/adapters/binding":    {"k8s.io/client-go", "k8s.io/apiserver", "go.etcd.io"},
	"pkg/adapters/engine":     {"k8s.io/client-go", "k8s.io/apiserver", "go.etcd.io"},
	"pkg/adapters/storage":    {"k8s.io/client-go", "k8s.io/apiserver", "go.etcd.io"},
	"pkg/apis/inferencecache": {"k8s.io/client-go", "k8s.io/apiserver", "go.etcd.io"},
	"pkg/admission/pod":       {"k8s.io/client-go", "k8s.io/apiserver", "go.etcd.io"},
	"pkg/cacheserver":         {"k8s.io/client-go", "k8s.io/apiserver", "go.etcd.io"},
	// Users of the typed clients link no server.
	"pkg/generated/clientset/versioned": {"k8s.io/apiserver", "go.etcd.io"},
}

// TestMain looks at every source file, so that go test does not take a result from its
// cache after one has changed: it does not see what go list reads.
func TestMain(m *testing.M) {
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && (entry.Name() == "_output" || entry.Name() == ".git") {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestDirectionOfImports(t *testing.T) {
	t.Parallel()
	for _, line := range goList(t, "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "../../...") {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		permitted, ok := rule(name)
		if !ok {
			t.Errorf("%s: no rule says what it may import; add one where it belongs", name)
			continue
		}
		for _, path := range fields[1:] {
			imported, ours := strings.CutPrefix(path, module)
			if ours && !slices.ContainsFunc(permitted, func(pattern string) bool { return covers(pattern, imported) }) {
				t.Errorf("%s must not import %s", name, imported)
			}
		}
	}
}

func TestForeignCode(t *testing.T) {
	t.Parallel()
	for name, banned := range foreign {
		for _, path := range goList(t, "-deps", "../../"+name) {
			if slices.ContainsFunc(banned, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }) {
				t.Errorf("%s must not link %s", name, path)
			}
		}
	}
}

// rule returns the most exact rule for a package.
func rule(name string) ([]string, bool) {
	if permitted, ok := allowed[name]; ok {
		return permitted, true
	}
	for pattern, permitted := range allowed {
		if strings.HasSuffix(pattern, "/") && covers(pattern, name) {
			return permitted, true
		}
	}
	return nil, false
}

func covers(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/"); ok {
		return name == prefix || strings.HasPrefix(name, pattern)
	}
	return name == pattern
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
