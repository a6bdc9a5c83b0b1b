// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stages holds what the simulated kubelets of the local cluster do with nodes and pods.
package stages

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// Documents returns all stages as one stream of YAML documents, the form kwok takes as its configuration.
func Documents() ([]byte, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing stages: %w", err)
	}
	var stream bytes.Buffer
	for _, name := range names {
		document, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading stage: %w", err)
		}
		stream.WriteString("---\n")
		stream.Write(document)
	}
	return stream.Bytes(), nil
}
