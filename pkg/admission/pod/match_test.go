// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	selecting := func(name string, labels map[string]string) inferencecache.CacheBackend {
		return inferencecache.CacheBackend{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       inferencecache.CacheBackendSpec{EngineSelector: &inferencecache.EngineSelector{MatchLabels: labels}},
		}
	}
	backends := []inferencecache.CacheBackend{
		selecting("z", map[string]string{"app": "engine"}),
		selecting("b", map[string]string{"app": "engine", "tier": "gpu"}),
		selecting("B", map[string]string{"tier": "gpu"}),
		selecting("a-empty", nil),
		selecting("a-other", map[string]string{"app": "web"}),
		selecting("a-absent", map[string]string{"missing": ""}),
		{ObjectMeta: metav1.ObjectMeta{Name: "a-none"}},
	}
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   []string
	}{
		{"all pairs", map[string]string{"app": "engine", "tier": "gpu", "more": "yes"}, []string{"B", "b", "z"}},
		{"one pair", map[string]string{"app": "engine"}, []string{"z"}},
		{"another value", map[string]string{"app": "engine2"}, nil},
		{"no labels", nil, nil},
	} {
		var got []string
		for _, backend := range match(backends, tt.labels) {
			got = append(got, backend.Name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
