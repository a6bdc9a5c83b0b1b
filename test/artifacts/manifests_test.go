// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package artifacts checks what is applied to clusters: the manifests of the installation, and the samples.
package artifacts

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const root = "../../artifacts"

// licenceHeader begins every manifest.
const licenceHeader = "# Copyright The Inference Cache Authors.\n# SPDX-License-Identifier: Apache-2.0\n"

// document is one YAML document of a file.
type document struct {
	file string
	yaml []byte
}

// glob lists files below artifacts/. A pattern without a match is a mistake of the test.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	return files
}

// readDocuments splits files into documents and leaves out those that hold comments only.
func readDocuments(t *testing.T, files ...string) []document {
	t.Helper()
	var documents []document
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			text, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			var value any
			if err := yaml.UnmarshalStrict(text, &value); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if value != nil {
				documents = append(documents, document{file: file, yaml: text})
			}
		}
	}
	return documents
}

// decode returns the document as its versioned type, without defaults. Unknown and duplicate fields are errors.
func (d document) decode(t *testing.T, scheme *runtime.Scheme) runtime.Object {
	t.Helper()
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, _, err := codecs.UniversalDeserializer().Decode(d.yaml, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", d.file, err)
	}
	return obj
}

// kustomization is the part of a kustomization.yaml that names files.
type kustomization struct {
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Patches    []struct {
		Path string `json:"path"`
	} `json:"patches"`
}

// TestKustomizationsAreComplete finds manifests that no kustomization applies, and names of files that do not exist.
func TestKustomizationsAreComplete(t *testing.T) {
	var found int
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		found++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var k kustomization
		if err := yaml.Unmarshal(content, &k); err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		named := slices.Concat(k.Resources, k.Components)
		for _, patch := range k.Patches {
			if patch.Path != "" {
				named = append(named, patch.Path)
			}
		}
		dir := filepath.Dir(path)
		for _, name := range named {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if name := filepath.Base(file); name != "kustomization.yaml" && !slices.Contains(named, name) {
				t.Errorf("%s: does not name %s", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no kustomization found")
	}
}

// TestLicenceHeaders also reads every file as YAML.
func TestLicenceHeaders(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if filepath.Ext(path) != ".yaml" {
			t.Errorf("%s: not a .yaml file", path)
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(string(content), licenceHeader) {
			t.Errorf("%s: does not begin with the licence header", path)
		}
		if len(readDocuments(t, path)) == 0 {
			t.Errorf("%s: empty", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
