// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admissioncases reads the golden cases of admission: one request each, with the
// verdict, the defaults and the warnings that it must get. It does not know how a request
// is served, so that every layer can be held to the same cases.
package admissioncases

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Operation is what the request of a case does.
type Operation string

const (
	// Create creates the object.
	Create Operation = "create"
	// Update replaces a stored object with the object.
	Update Operation = "update"
)

// Case is one golden case.
type Case struct {
	Name      string    `json:"name"`
	Note      string    `json:"note,omitempty"`
	Operation Operation `json:"operation"`
	// Existing are objects that are stored already. On an update they may contain the
	// object itself.
	Existing []unstructured.Unstructured `json:"existing,omitempty"`
	// Old is the stored object of an update. It was admitted under other rules: apply the
	// constant defaults to it, as a read would, and nothing else.
	Old *unstructured.Unstructured `json:"old,omitempty"`
	// Object is the body of the request, decoded leniently.
	Object *unstructured.Unstructured `json:"object"`
	Expect Expect                     `json:"expect"`
}

// Expect is the outcome of a case.
type Expect struct {
	Allowed bool `json:"allowed"`
	// Errors are all errors of a request that is refused, as a set.
	Errors []Error `json:"errors,omitempty"`
	// Warnings are those of an admitted request; nil when they do not matter.
	Warnings *Warnings `json:"warnings,omitempty"`
	// Defaults are values of the stored object by path; see CheckDefaults.
	Defaults map[string]any `json:"defaults,omitempty"`
}

// Error is what a case says about a field error.
type Error struct {
	Type  string `json:"type"`
	Field string `json:"field"`
}

// Warnings says how many warnings there are, or what occurs in them.
type Warnings struct {
	Count      *int
	Substrings []string
}

// UnmarshalJSON reads a number or a list of strings.
func (w *Warnings) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &w.Count); err == nil {
		return nil
	}
	w.Count = nil
	if err := json.Unmarshal(data, &w.Substrings); err != nil {
		return errors.New("warnings must be a number or a list of strings")
	}
	return nil
}

// Load reads every case of a folder, in the order of their file names.
func Load(dir string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing cases: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases in %s", dir)
	}
	cases := make([]Case, 0, len(files))
	names := map[string]string{}
	for _, file := range files {
		c, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if other, taken := names[c.Name]; taken {
			return nil, fmt.Errorf("%s and %s have the same name %q", other, file, c.Name)
		}
		names[c.Name] = file
		cases = append(cases, c)
	}
	return cases, nil
}

func read(file string) (Case, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Case{}, err
	}
	var c Case
	// Strict, since a misspelt expectation would pass unnoticed.
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Case{}, err
	}
	return c, c.validate()
}

// validate refuses cases that cannot mean what they say.
func (c *Case) validate() error {
	switch {
	case c.Name == "":
		return errors.New("the case has no name")
	case c.Object == nil:
		return errors.New("the case has no object")
	case c.Operation != Create && c.Operation != Update:
		return fmt.Errorf("the operation %q is neither %s nor %s", c.Operation, Create, Update)
	case (c.Old != nil) != (c.Operation == Update):
		return errors.New("an update needs an old object and a create has none")
	case c.Expect.Allowed == (len(c.Expect.Errors) > 0):
		return errors.New("a refusal needs errors and an admitted request has none")
	case !c.Expect.Allowed && (c.Expect.Warnings != nil || c.Expect.Defaults != nil):
		return errors.New("a refused request has neither warnings nor defaults")
	}
	return nil
}
