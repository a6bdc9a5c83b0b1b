// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// goldenCases are the requests behind the files of testdata. The files were written by hand
// and say what an API server stores, defaults included: nothing may be missing from what is
// rendered, or the controller would write for ever.
func goldenCases() map[string]struct {
	provider v1alpha1.StorageProvider
	request  Request
} {
	type goldenCase = struct {
		provider v1alpha1.StorageProvider
		request  Request
	}
	statefulSet := func(r *Request) { r.Kind = "StatefulSet" }
	autoscaled := func(r *Request) {
		r.Autoscaling = &Autoscaling{MinReplicas: new(int32(3)), MaxReplicas: 6}
	}
	onSGLang := func(r *Request) { r.Usage = sglang }
	return map[string]goldenCase{
		"redis-deployment":          {"Redis", request(onSGLang)},
		"redis-statefulset":         {"Redis", request(func(r *Request) { onSGLang(r); statefulSet(r) })},
		"lmcacheserver-deployment":  {"LMCacheServer", request(nil)},
		"lmcacheserver-statefulset": {"LMCacheServer", request(statefulSet)},
		"mooncake-deployment":       {"Mooncake", request(nil)},
		"mooncake-statefulset":      {"Mooncake", request(statefulSet)},
		"mooncake-deployment-template": {"Mooncake", request(func(r *Request) {
			r.Template = fullTemplate()
		})},
		"lmcacheserver-deployment-autoscaled": {"LMCacheServer", request(autoscaled)},
		"lmcacheserver-statefulset-autoscaled": {"LMCacheServer", request(func(r *Request) {
			autoscaled(r)
			statefulSet(r)
		})},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := goldenCases()
	if len(files) != len(cases) {
		t.Errorf("%d files for %d cases", len(files), len(cases))
	}
	for _, provider := range Names() {
		for _, kind := range []string{"deployment", "statefulset"} {
			if name := strings.ToLower(string(provider)) + "-" + kind; cases[name].provider != provider {
				t.Errorf("there is no case %s", name)
			}
		}
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := readGolden(t, "testdata/"+name+".yaml")
			got := render(t, tt.provider, tt.request)
			got.Replicas = Replicas{}
			check(t, "rendered", got, want)
		})
	}
}

func readGolden(t *testing.T, file string) *Rendered {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden := &Rendered{}
	for _, document := range bytes.Split(text, []byte("\n---\n"))[1:] {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
		var object any
		switch meta.Kind {
		case "Deployment":
			golden.Deployment = &appsv1.Deployment{}
			object = golden.Deployment
		case "StatefulSet":
			golden.StatefulSet = &appsv1.StatefulSet{}
			object = golden.StatefulSet
		case "Service":
			golden.Service = &corev1.Service{}
			object = golden.Service
		case "HorizontalPodAutoscaler":
			golden.HPA = &autoscalingv2.HorizontalPodAutoscaler{}
			object = golden.HPA
		default:
			t.Fatalf("%s has a %q", file, meta.Kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("reading %s: %v", file, err)
		}
	}
	return golden
}
