// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package admissioncases

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// CheckErrors compares the causes of a refusal with what a case wants, as sets.
func CheckErrors(want []Error, causes []metav1.StatusCause) error {
	wanted := sets.New(want...)
	got := sets.New[Error]()
	for _, cause := range causes {
		got.Insert(Error{Type: string(cause.Type), Field: cause.Field})
	}
	var problems []error
	for _, missing := range sorted(wanted.Difference(got)) {
		problems = append(problems, fmt.Errorf("missing error %s at %s", missing.Type, missing.Field))
	}
	for _, extra := range sorted(got.Difference(wanted)) {
		problems = append(problems, fmt.Errorf("unexpected error %s at %s", extra.Type, extra.Field))
	}
	return errors.Join(problems...)
}

func sorted(set sets.Set[Error]) []Error {
	list := set.UnsortedList()
	slices.SortFunc(list, func(a, b Error) int {
		return strings.Compare(a.Field+" "+a.Type, b.Field+" "+b.Type)
	})
	return list
}

// CheckWarnings compares the warnings of an admitted request with what a case wants.
func CheckWarnings(want *Warnings, got []string) error {
	if want == nil {
		return nil
	}
	if want.Count != nil && *want.Count != len(got) {
		return fmt.Errorf("want %d warnings, got %q", *want.Count, got)
	}
	var problems []error
	for _, substring := range want.Substrings {
		contains := func(warning string) bool { return strings.Contains(warning, substring) }
		if !slices.ContainsFunc(got, contains) {
			problems = append(problems, fmt.Errorf("no warning contains %q: %q", substring, got))
		}
	}
	return errors.Join(problems...)
}

// CheckDefaults compares values of an object with those wanted at dotted paths, such as
// spec.replicas, metadata.annotations[example.com/a] and spec.items[0].name. A nil wants
// the value to be absent or null. Numbers are compared as numbers.
func CheckDefaults(obj map[string]any, defaults map[string]any) error {
	paths := make([]string, 0, len(defaults))
	for path := range defaults {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var problems []error
	for _, path := range paths {
		got, err := lookup(obj, path)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if !reflect.DeepEqual(normal(got), normal(defaults[path])) {
			problems = append(problems, fmt.Errorf("%s is %#v, want %#v", path, got, defaults[path]))
		}
	}
	return errors.Join(problems...)
}

// lookup returns the value at a path, nil if there is none.
func lookup(value any, path string) (any, error) {
	steps, err := split(path)
	if err != nil {
		return nil, err
	}
	for _, step := range steps {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil {
				return nil, fmt.Errorf("path %q: %q is no index of a list", path, step)
			}
			if i < 0 || i >= len(v) {
				return nil, nil
			}
			value = v[i]
		default:
			return nil, nil
		}
	}
	return value, nil
}

// split cuts a path into keys and indexes.
func split(path string) ([]string, error) {
	var steps []string
	rest := path
	for rest != "" {
		if after, found := strings.CutPrefix(rest, "["); found {
			key, after, closed := strings.Cut(after, "]")
			if !closed {
				return nil, fmt.Errorf("path %q has a bracket that is not closed", path)
			}
			steps = append(steps, key)
			rest = after
			continue
		}
		rest = strings.TrimPrefix(rest, ".")
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("path %q has an empty step", path)
		}
		steps = append(steps, rest[:end])
		rest = rest[end:]
	}
	if len(steps) == 0 {
		return nil, errors.New("the path is empty")
	}
	return steps, nil
}

// normal gives numbers one type, whichever decoder made them.
func normal(value any) any {
	switch v := value.(type) {
	case int:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case json.Number:
		if number, err := v.Float64(); err == nil {
			return number
		}
		return v
	case []any:
		list := make([]any, 0, len(v))
		for _, item := range v {
			list = append(list, normal(item))
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			object[key] = normal(item)
		}
		return object
	default:
		return value
	}
}
