// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiringcases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../testdata/engine-wiring-cases"

func TestLoad(t *testing.T) {
	t.Parallel()
	cases, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 53 {
		t.Errorf("there are %d cases", len(cases))
	}
	c := named(t, cases, "38-first-match-by-name")
	if c.Comment != "Two matching backends: the alphabetically first name wins regardless of list order" || len(c.Backends()) != 4 {
		t.Errorf("case is %+v", c)
	}
}

func named(t *testing.T, cases []Case, name string) Case {
	t.Helper()
	for _, c := range cases {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	return Case{}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	const (
		head     = "# comment\noptions: {}\nbackend: {metadata: {name: b}}\npod: {metadata: {name: p}, spec: {containers: [{name: vllm}]}}\n"
		skipped  = head + "expect: {outcome: skipped, reason: skipped, patch: empty, annotations: {}, spec: unchanged}\n"
		lists    = "hostNetwork: false, dnsPolicy: '', initContainers: [], volumes: []"
		wiredTop = head + "expect: {outcome: wired, patch: empty, annotations: {}, " + lists + ", containers: "
	)
	tests := []struct{ name, text, want string }{
		{name: "good", text: skipped},
		{name: "good and wired", text: wiredTop + "[{name: vllm, state: unchanged}]}\n"},
		{name: "no comment", text: strings.TrimPrefix(skipped, "# comment\n"), want: "no comment"},
		{name: "unknown key", text: skipped + "more: 1\n", want: "more"},
		{name: "unknown field of the pod", text: strings.Replace(skipped, "{name: vllm}", "{name: vllm, argz: []}", 1), want: "argz"},
		{name: "unknown field of the backend", text: strings.Replace(skipped, "backend: {", "backend: {spek: {}, ", 1), want: "spek"},
		{name: "key twice", text: skipped + "options: {}\n", want: "already"},
		{name: "no pod", text: strings.Replace(skipped, "pod: ", "options2: ", 1), want: "options2"},
		{name: "pod missing", text: "# comment\nbackend: {}\nexpect: {outcome: skipped}\n", want: "no pod"},
		{name: "backend missing", text: "# comment\npod: {}\nexpect: {outcome: skipped}\n", want: "no backend"},
		{name: "outcome", text: strings.Replace(skipped, "outcome: skipped", "outcome: odd", 1), want: "outcome"},
		{name: "patch", text: strings.Replace(skipped, "patch: empty", "patch: some", 1), want: "patch"},
		{name: "annotations", text: strings.Replace(skipped, "annotations: {}, ", "", 1), want: "annotations"},
		{name: "reason missing", text: strings.Replace(skipped, "reason: skipped, ", "", 1), want: "reason"},
		{name: "reason of a wired pod", text: strings.Replace(wiredTop, "wired,", "wired, reason: x,", 1) + "[{name: vllm, state: unchanged}]}\n", want: "reason"},
		{name: "spec", text: strings.Replace(skipped, "spec: unchanged", "spec: same", 1), want: "same"},
		{name: "unchanged with lists", text: strings.Replace(skipped, "spec: unchanged", "spec: unchanged, volumes: []", 1), want: "nothing else"},
		{name: "incomplete", text: strings.Replace(skipped, ", spec: unchanged", ", volumes: []", 1), want: "needs hostNetwork"},
		{name: "state", text: wiredTop + "[{name: vllm, state: odd}]}\n", want: "state"},
		{name: "unchanged container with fields", text: wiredTop + "[{name: vllm, state: unchanged, args: []}]}\n", want: "nothing else"},
		{name: "changed container without fields", text: wiredTop + "[{name: vllm, state: changed}]}\n", want: "lists"},
		{name: "added container without a spec", text: wiredTop + "[{name: vllm, state: added}]}\n", want: "needs a spec"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder is no error")
	}
}
