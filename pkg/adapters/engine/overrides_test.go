// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestMergeArgs(t *testing.T) {
	t.Parallel()
	tests := []struct{ before, after, suppress, args, want string }{
		{before: "-m A", after: "-m A --x 1", args: "--x=2", want: "-m A --x=2"},
		{after: "--x=1 --y", args: "--x 2", want: "--x 2 --y"},
		{after: "--x 1 --y 2", suppress: "--x", args: "--x 9", want: "--y 2 --x 9"},
		{after: "--x 1 --y 2", args: "--x -1", want: "--x --y 2 -1"},
		{before: "--x=1", after: "--x 1", suppress: "--x", args: "--x 5", want: "--x 1"},
		{after: "--x 1", suppress: "--x=1", want: "--x 1"},
		{after: "--t serve", suppress: "--t", want: ""},
		{after: "--x 1 --y", args: "--x", want: "--x --y"},
		{before: "--port 80", after: "--port 80 --x 1", args: "--port 90 pos", want: "--port 80 --x 1 pos"},
		{before: "--x 0", after: "--x 1", suppress: "--x", want: ""},
		{after: "--x 1", args: "--x 2 --x 3", want: "--x 3"},
		{after: "--x 1", args: "--n 2 --n=3", want: "--x 1 --n 2 --n=3"},
		{before: "--x 1 --x 2", after: "--x 9 --x 2", args: "--x 7", want: "--x 9 --x 2"},
		{after: "--x 1 --x 2", suppress: "--x", want: ""},

		{before: "-x 1", after: "-x 1 --x 1", args: "--x 2", want: "-x 1 --x 2"},
		{after: "--xy 1", suppress: "--x", want: "--xy 1"},
		{before: "--x 1", after: "--x 1", suppress: "--x", args: "--x 2", want: "--x 1"},
		{after: "--x 1", args: "pos 1 pos", want: "--x 1 pos"},
		{before: "--y 2 --x 9 --z", after: "--y 2 --x 1 --z", suppress: "--x", args: "--x 9 --z", want: "--y 2 --x 9 --z"},
		{before: "--x 1 --y", after: "--x 2 --y", suppress: "--x", args: "--x 1 --x 3", want: "--y --x 3"},
	}
	for _, tt := range tests {
		got := strings.Join(mergeArgs(strings.Fields(tt.before), strings.Fields(tt.after), strings.Fields(tt.suppress), strings.Fields(tt.args)), " ")
		if got != tt.want {
			t.Errorf("%q, then %q, without %q, with %q: %q, want %q", tt.before, tt.after, tt.suppress, tt.args, got, tt.want)
		}
	}
}

func TestMergeEnv(t *testing.T) {
	t.Parallel()
	field := fieldEnv("X", "metadata.name")
	filled := *field.DeepCopy()
	filled.ValueFrom.FieldRef.APIVersion = "v1"
	divisor := func(text string) corev1.EnvVar {
		source := &corev1.ResourceFieldSelector{Resource: "limits.memory"}
		if text != "" {
			source.Divisor = resource.MustParse(text)
		}
		return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: source}}
	}
	vars := func(text string) []corev1.EnvVar { return variables(strings.ReplaceAll(text, " ", "\n")) }

	tests := []struct {
		name                           string
		before, after, overrides, want []corev1.EnvVar
		suppress                       []string
	}{
		{name: "injected is replaced", before: vars("H=/"), after: vars("H=/ X=1 Y=2"), overrides: vars("X=3"), want: vars("H=/ X=3 Y=2")},
		{name: "injected is suppressed", after: vars("X=1 Y=2"), suppress: []string{"X"}, want: vars("Y=2")},
		{name: "user's is not replaced", before: vars("H=/"), after: vars("H=/ X=1"), overrides: vars("H=/other"), want: vars("H=/ X=1")},
		{name: "user's is not suppressed", before: vars("H=/"), after: vars("H=/ X=1"), suppress: []string{"H", "NONE"}, want: vars("H=/ X=1")},
		{name: "new is appended", after: vars("X=1"), overrides: vars("N=1 M=2"), want: vars("X=1 N=1 M=2")},
		{name: "equal is the user's", before: vars("X=1"), after: vars("X=1 Y=2"), overrides: vars("X=3"), suppress: []string{"X"}, want: vars("X=1 Y=2")},
		{name: "changed is injected", before: vars("X=0 H=/"), after: vars("X=1 H=/"), overrides: vars("X=3"), want: vars("X=3 H=/")},
		{name: "changed is suppressed altogether", before: vars("X=0 H=/"), after: vars("X=1 H=/"), suppress: []string{"X"}, want: vars("H=/")},
		{name: "source counts", before: []corev1.EnvVar{field}, after: vars("X=1"), overrides: vars("X=3"), want: vars("X=3")},
		{name: "last decides", before: vars("X=1 X=2"), after: vars("X=9 X=2"), overrides: vars("X=3"), suppress: []string{"X"}, want: vars("X=9 X=2")},
		{name: "suppressed and added again", after: vars("X=1 Y=2"), overrides: vars("X=3 N=1"), suppress: []string{"X"}, want: vars("Y=2 X=3 N=1")},
		{name: "added again keeps its place", before: vars("Y=2 X=3 N=1"), after: vars("Y=2 X=1 N=1"), overrides: vars("X=3 N=1"),
			suppress: []string{"X"}, want: vars("Y=2 X=3 N=1")},
		{name: "another one does not", before: vars("X=4 Y=2"), after: vars("X=1 Y=2"), overrides: vars("X=3"), suppress: []string{"X"}, want: vars("Y=2 X=3")},
		{name: "the last override counts", before: vars("Y=2 X=3 N=1"), after: vars("Y=2 X=1 N=1"), overrides: vars("X=5 X=3 N=1"),
			suppress: []string{"X"}, want: vars("Y=2 X=3 N=1")},
		{name: "what API servers fill in is kept", before: []corev1.EnvVar{filled}, after: vars("X=1"), overrides: []corev1.EnvVar{field},
			suppress: []string{"X"}, want: []corev1.EnvVar{filled}},
		{name: "no divisor is 0", before: []corev1.EnvVar{divisor("0"), {Name: "N"}}, after: vars("X=1 N="), overrides: []corev1.EnvVar{divisor("")},
			suppress: []string{"X"}, want: []corev1.EnvVar{divisor("0"), {Name: "N"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := mergeEnv(tt.before, slices.Clone(tt.after), tt.suppress, tt.overrides)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDivisorOutOfRange wires overrides that were stored before validation refused them.
func TestDivisorOutOfRange(t *testing.T) {
	t.Parallel()
	divisor := func(text string) corev1.EnvVar {
		source := &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse(text)}
		return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: source}}
	}
	start := time.Now()
	for text, refused := range map[string]bool{
		"0": false, "1": false, "1Mi": false, "9e18": false, "0e2000000001": false,
		"1e19": true, "1e2000000001": true, "-1e2000000001": true, strings.Repeat("7", 10_000): true,
	} {
		wiring := Wiring{Overrides: Overrides{Env: []corev1.EnvVar{{Name: "A"}, divisor(text)}}}
		if refused {
			mustReject(t, vllmLMCache, enginePod("vllm"), wiring, "engineOverrides.env[1]")
			continue
		}
		if _, err := Wire(vllmLMCache, enginePod("vllm"), wiring, Subscriber{}); err != nil {
			t.Errorf("divisor %s: %v", text, err)
		}
	}
	// A template may have any divisor, on which the server that checks the pod decides.
	pod := enginePod("vllm")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{divisor("1e2000000001")}
	if _, err := Wire(vllmLMCache, pod, Wiring{Overrides: Overrides{Env: []corev1.EnvVar{divisor("1")}}}, Subscriber{}); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestOverridesAreCopied checks that pods do not share anything with a backend.
func TestOverridesAreCopied(t *testing.T) {
	t.Parallel()
	override := fieldEnv("NEW", "metadata.name")
	wired, err := Wire(vllmLMCache, &corev1.Pod{Spec: corev1.PodSpec{Containers: containers("vllm")}},
		Wiring{Overrides: Overrides{Env: []corev1.EnvVar{override}}}, Subscriber{})
	if err != nil {
		t.Fatal(err)
	}
	env := wired.Spec.Containers[0].Env
	env[len(env)-1].ValueFrom.FieldRef.FieldPath = "changed"
	if override.ValueFrom.FieldRef.FieldPath != "metadata.name" {
		t.Error("changing the pod changes the backend")
	}
}
