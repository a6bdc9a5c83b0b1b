// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

func TestSetArgPair(t *testing.T) {
	t.Parallel()
	tests := []struct{ args, want string }{
		{args: "", want: "--f v"},
		{args: "serve model", want: "serve model --f v"},
		{args: "--f=old --g", want: "--f v --g"},
		{args: "--f= --g", want: "--f v --g"},
		{args: "--f old --g", want: "--f v --g"},
		{args: "--g --f", want: "--g --f v"},
		{args: "--f --g", want: "--f v --g"},
		{args: "--f -1", want: "--f v -1"},
		{args: "--f old --f=older --f", want: "--f v --f=older --f"},
		{args: "--f=old --f older", want: "--f v --f older"},
		{args: "--ff old", want: "--ff old --f v"},
		{args: "-f old", want: "-f old --f v"},
	}
	for _, tt := range tests {
		if got := strings.Join(setArgPair(strings.Fields(tt.args), "--f", "v"), " "); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestSetFlag(t *testing.T) {
	t.Parallel()
	tests := []struct{ args, want string }{
		{args: "", want: "--f"},
		{args: "--f --g", want: "--f --g"},
		{args: "--f=true", want: "--f=true --f"},
		{args: "--ff", want: "--ff --f"},
	}
	for _, tt := range tests {
		if got := strings.Join(setFlag(strings.Fields(tt.args), "--f"), " "); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestSetEnv(t *testing.T) {
	t.Parallel()
	env := []corev1.EnvVar{{Name: "A", Value: "1"}, fieldEnv("B", "metadata.name"), {Name: "B", Value: "2"}}
	want := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "x"}, {Name: "B", Value: "2"}, {Name: "C", Value: "y"}}
	got := setEnv(setEnv(env, "B", "x"), "C", "y")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "C", Value: "y"}}, removeEnv(got, "B")); diff != "" {
		t.Errorf("environment without B (-want +got):\n%s", diff)
	}
}

func TestSetMount(t *testing.T) {
	t.Parallel()
	mount := func(name, path string) corev1.VolumeMount { return corev1.VolumeMount{Name: name, MountPath: path} }
	tests := []struct {
		name         string
		mounts, want []corev1.VolumeMount
	}{
		{name: "none", want: []corev1.VolumeMount{mount("v", "/p")}},
		{name: "of the volume", mounts: []corev1.VolumeMount{mount("v", "/q"), mount("w", "/p")},
			want: []corev1.VolumeMount{mount("v", "/p"), mount("w", "/p")}},
		{name: "of the volume, twice", mounts: []corev1.VolumeMount{mount("v", "/q"), {Name: "v", MountPath: "/p", ReadOnly: true}},
			want: []corev1.VolumeMount{mount("v", "/q"), mount("v", "/p")}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, setMount(tt.mounts, mount("v", "/p")), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
