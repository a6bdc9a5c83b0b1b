// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package admissioncases

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLoadReadsEveryShippedCase(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "testdata", "admission-cases")
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != len(entries) {
		t.Errorf("read %d cases from %d files", len(cases), len(entries))
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"001-a.yaml": `
name: a
note: remark
operation: update
existing:
- {apiVersion: v1, kind: A, metadata: {name: other}}
old: {apiVersion: v1, kind: A, metadata: {name: x}}
object: {apiVersion: v1, kind: A, metadata: {name: x}, spec: {size: 3}}
expect:
  allowed: true
  warnings: [careful]
  defaults: {spec.size: 3}
`, "002-b.yaml": `
name: b
operation: create
object: {apiVersion: v1, kind: A, metadata: {name: x}}
expect:
  allowed: false
  errors:
  - {type: FieldValueInvalid, field: spec.n}
`})
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 2 {
		t.Fatalf("got %d cases, want 2", len(cases))
	}
	update, create := cases[0], cases[1]
	if update.Name != "a" || update.Note != "remark" || update.Operation != Update || update.Old.GetName() != "x" {
		t.Errorf("got %+v", update)
	}
	if len(update.Existing) != 1 || update.Existing[0].GetName() != "other" {
		t.Errorf("existing objects are %v", update.Existing)
	}
	if diff := cmp.Diff(&Warnings{Substrings: []string{"careful"}}, update.Expect.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if err := CheckDefaults(update.Object.Object, update.Expect.Defaults); err != nil {
		t.Error(err)
	}
	want := Expect{Errors: []Error{{Type: "FieldValueInvalid", Field: "spec.n"}}}
	if diff := cmp.Diff(want, create.Expect); diff != "" {
		t.Errorf("expectation (-want +got):\n%s", diff)
	}
}

func TestLoadRefusesCasesThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	const object = "object: {apiVersion: v1, kind: A, metadata: {name: x}}\n"
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{name: "empty folder", want: "no cases"},
		{name: "no name", files: map[string]string{"a.yaml": "operation: create\n" + object + "expect: {allowed: true}\n"}, want: "no name"},
		{name: "no object", files: map[string]string{"a.yaml": "name: a\noperation: create\nexpect: {allowed: true}\n"}, want: "no object"},
		{name: "operation", files: map[string]string{"a.yaml": "name: a\noperation: delete\n" + object + "expect: {allowed: true}\n"}, want: "operation"},
		{name: "update without old", files: map[string]string{"a.yaml": "name: a\noperation: update\n" + object + "expect: {allowed: true}\n"}, want: "old object"},
		{name: "refusal without errors", files: map[string]string{"a.yaml": "name: a\noperation: create\n" + object + "expect: {allowed: false}\n"}, want: "needs errors"},
		{name: "refusal with warnings", files: map[string]string{"a.yaml": "name: a\noperation: create\n" + object +
			"expect: {allowed: false, warnings: 0, errors: [{type: a, field: b}]}\n"}, want: "neither warnings nor defaults"},
		{name: "misspelt key", files: map[string]string{"a.yaml": "name: a\noperation: create\n" + object + "expect: {alowed: true}\n"}, want: "alowed"},
		{name: "warnings", files: map[string]string{"a.yaml": "name: a\noperation: create\n" + object + "expect: {allowed: true, warnings: some}\n"}, want: "number or a list"},
		{name: "same name", files: map[string]string{
			"a.yaml": "name: a\noperation: create\n" + object + "expect: {allowed: true}\n",
			"b.yaml": "name: a\noperation: create\n" + object + "expect: {allowed: true}\n",
		}, want: "same name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(write(t, tt.files))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	a := Error{Type: "FieldValueInvalid", Field: "spec.a"}
	b := Error{Type: "FieldValueForbidden", Field: "spec.a"}
	cause := func(e Error) metav1.StatusCause {
		return metav1.StatusCause{Type: metav1.CauseType(e.Type), Field: e.Field, Message: "text"}
	}
	tests := []struct {
		name   string
		want   []Error
		causes []metav1.StatusCause
		errs   []string
	}{
		{name: "equal as sets", want: []Error{a, b}, causes: []metav1.StatusCause{cause(b), cause(a), cause(a)}},
		{name: "missing", want: []Error{a, b}, causes: []metav1.StatusCause{cause(a)}, errs: []string{"missing error FieldValueForbidden"}},
		{name: "unexpected", want: []Error{a}, causes: []metav1.StatusCause{cause(a), cause(b)}, errs: []string{"unexpected error FieldValueForbidden"}},
		{name: "both", want: []Error{a}, causes: []metav1.StatusCause{cause(b)}, errs: []string{"missing", "unexpected"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, CheckErrors(tt.want, tt.causes), tt.errs)
		})
	}
}

func TestCheckWarnings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		want *Warnings
		got  []string
		errs []string
	}{
		{name: "unchecked", got: []string{"x"}},
		{name: "count", want: &Warnings{Count: new(1)}, got: []string{"x"}},
		{name: "other count", want: &Warnings{Count: new(0)}, got: []string{"x"}, errs: []string{"want 0"}},
		{name: "substrings", want: &Warnings{Substrings: []string{"b", "a"}}, got: []string{"xax", "xbx", "c"}},
		{name: "missing substring", want: &Warnings{Substrings: []string{"b", "a"}}, got: []string{"a"}, errs: []string{`contains "b"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, CheckWarnings(tt.want, tt.got), tt.errs)
		})
	}
}

func TestCheckDefaults(t *testing.T) {
	t.Parallel()
	obj := map[string]any{
		"spec": map[string]any{
			"replicas": int64(3),
			"null":     nil,
			"no":       false,
			"labels":   map[string]any{"example.com/a.b": "v"},
			"list":     []any{map[string]any{"name": "first"}, json.Number("2")},
		},
	}
	tests := []struct {
		name  string
		path  string
		value any
		errs  []string
	}{
		{name: "number", path: "spec.replicas", value: float64(3)},
		{name: "other number", path: "spec.replicas", value: float64(4), errs: []string{"spec.replicas is 3"}},
		{name: "number is no string", path: "spec.replicas", value: "3", errs: []string{"want \"3\""}},
		{name: "absent", path: "spec.other.deeper", value: nil},
		{name: "null", path: "spec.null", value: nil},
		{name: "present instead of null", path: "spec.no", value: nil, errs: []string{"spec.no"}},
		{name: "absent instead of value", path: "spec.other", value: false, errs: []string{"spec.other"}},
		{name: "false", path: "spec.no", value: false},
		{name: "key with dots", path: "spec.labels[example.com/a.b]", value: "v"},
		{name: "index", path: "spec.list[0].name", value: "first"},
		{name: "index out of range", path: "spec.list[2]", value: nil},
		{name: "whole list", path: "spec.list", value: []any{map[string]any{"name": "first"}, float64(2)}},
		{name: "no index", path: "spec.list.name", value: nil, errs: []string{"no index"}},
		{name: "below a value", path: "spec.replicas.x", value: nil},
		{name: "open bracket", path: "spec.labels[a", value: nil, errs: []string{"not closed"}},
		{name: "empty step", path: "spec..a", value: nil, errs: []string{"empty step"}},
		{name: "empty path", path: "", value: nil, errs: []string{"empty"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, CheckDefaults(obj, map[string]any{tt.path: tt.value}), tt.errs)
		})
	}
}

func check(t *testing.T, err error, want []string) {
	t.Helper()
	if (err != nil) != (len(want) > 0) {
		t.Fatalf("error is %v, want one with %q", err, want)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want one with %q", err, text)
		}
	}
}
