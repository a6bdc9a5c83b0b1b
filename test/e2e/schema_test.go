// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// setField sets the member at a path such as spec.items[0].name and makes what is missing on the way there.
func setField(object map[string]any, field string, value any) {
	steps := strings.Split(field, ".")
	for _, step := range steps[:len(steps)-1] {
		name, inList := strings.CutSuffix(step, "[0]")
		next := map[string]any{}
		switch member := object[name].(type) {
		case map[string]any:
			next = member
		case []any:
			next = member[0].(map[string]any)
		default:
			object[name] = next
			if inList {
				object[name] = []any{next}
			}
		}
		object = next
	}
	object[steps[len(steps)-1]] = value
}

func hasField(object map[string]any, field string) bool {
	steps := strings.Split(field, ".")
	for _, step := range steps[:len(steps)-1] {
		name, _ := strings.CutSuffix(step, "[0]")
		switch member := object[name].(type) {
		case map[string]any:
			object = member
		case []any:
			if len(member) == 0 {
				return false
			}
			object = member[0].(map[string]any)
		default:
			return false
		}
	}
	_, found := object[steps[len(steps)-1]]
	return found
}

// schemas are the published definitions by name.
type schemas map[string]definition

// definition is the part of a schema that tells where objects are.
type definition struct {
	Ref        string                    `json:"$ref"`
	AllOf      []definition              `json:"allOf"`
	Type       string                    `json:"type"`
	Properties map[string]definition     `json:"properties"`
	Items      *definition               `json:"items"`
	Kinds      []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

func publishedSchemas(t *testing.T) schemas {
	t.Helper()
	data, err := env.kube.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis", v1alpha1.APIVersion.String()).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas schemas `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	return document.Components.Schemas
}

func (s schemas) ofKind(kind string) (definition, bool) {
	want := metav1.GroupVersionKind(v1alpha1.APIVersion.WithKind(kind))
	for _, d := range s {
		if slices.Contains(d.Kinds, want) {
			return d, true
		}
	}
	return definition{}, false
}

// objectPaths returns the paths of all objects with members of their own, in schema order. Maps have none.
func (s schemas) objectPaths(of definition, path string) []string {
	of = s.resolve(of)
	if of.Items != nil {
		return s.objectPaths(*of.Items, path+"[0]")
	}
	if len(of.Properties) == 0 {
		return nil
	}
	paths := []string{path}
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		paths = append(paths, s.objectPaths(of.Properties[name], strings.TrimPrefix(path+"."+name, "."))...)
	}
	return paths
}

func (s schemas) resolve(of definition) definition {
	for {
		switch {
		case of.Ref != "":
			of = s[strings.TrimPrefix(of.Ref, "#/components/schemas/")]
		case len(of.AllOf) == 1:
			of = of.AllOf[0]
		default:
			return of
		}
	}
}
