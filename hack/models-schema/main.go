// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Command models-schema prints the generated OpenAPI definitions as a Swagger 2.0
// document, from which applyconfiguration-gen learns the schema of each type.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"inferencecache.io/inferencecache/pkg/generated/openapi"
)

func main() {
	if err := printSchema(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printSchema() error {
	ref := func(name string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + common.EscapeJsonPointer(friendlyName(name)))
	}
	definitions := spec.Definitions{}
	for name, definition := range openapi.GetOpenAPIDefinitions(ref) {
		schema := definition.Schema
		// A v2 document takes its own schema where the Go type has one for each version.
		if v2, ok := definition.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			schema = v2
		}
		definitions[friendlyName(name)] = schema
	}
	return json.NewEncoder(os.Stdout).Encode(&spec.Swagger{
		SwaggerProps: spec.SwaggerProps{
			Swagger:     "2.0",
			Definitions: definitions,
			Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "Inference Cache", Version: "unversioned"}},
		},
	})
}

// friendlyName turns a Go import path into the form that applyconfiguration-gen looks up:
// the host reversed, slashes as dots.
func friendlyName(name string) string {
	host, path, found := strings.Cut(name, "/")
	if !found {
		return name
	}
	labels := strings.Split(host, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".")
}
