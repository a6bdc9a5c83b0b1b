// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type texts = map[corev1.ResourceName]string

func TestResources(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		block      *corev1.ResourceRequirements
		autoscaled bool
		want       *corev1.ResourceRequirements
	}{
		{name: "default", want: requirements(texts{"memory": "4Gi"}, texts{"memory": "8Gi"})},
		{name: "empty", block: &corev1.ResourceRequirements{}, want: &corev1.ResourceRequirements{}},
		{name: "as given", block: requirements(texts{"memory": "2Gi"}, texts{"memory": "4Gi", "nvidia.com/gpu": "1"}),
			want: requirements(texts{"memory": "2Gi"}, texts{"memory": "4Gi", "nvidia.com/gpu": "1"})},
		{name: "no CPU without autoscaling", block: requirements(texts{"cpu": "0"}, nil), want: requirements(texts{"cpu": "0"}, nil)},
		{name: "thousandths", block: requirements(texts{"cpu": "100u"}, texts{"memory": "1.0001"}),
			want: requirements(texts{"cpu": "1m"}, texts{"memory": "1001m"})},

		{name: "autoscaled default", autoscaled: true, want: requirements(texts{"memory": "4Gi", "cpu": "250m"}, texts{"memory": "8Gi"})},
		{name: "autoscaled empty", autoscaled: true, block: &corev1.ResourceRequirements{}, want: requirements(texts{"cpu": "250m"}, nil)},
		{name: "autoscaled zero", autoscaled: true, block: requirements(texts{"cpu": "0"}, nil), want: requirements(texts{"cpu": "250m"}, nil)},
		{name: "autoscaled negative", autoscaled: true, block: requirements(texts{"cpu": "-1"}, nil), want: requirements(texts{"cpu": "250m"}, nil)},
		{name: "autoscaled positive", autoscaled: true, block: requirements(texts{"cpu": "1"}, nil), want: requirements(texts{"cpu": "1"}, nil)},
		{name: "autoscaled tiny", autoscaled: true, block: requirements(texts{"cpu": "1n"}, nil), want: requirements(texts{"cpu": "1m"}, nil)},
		{name: "autoscaled with a small limit", autoscaled: true, block: requirements(nil, texts{"cpu": "100m"}),
			want: requirements(texts{"cpu": "100m"}, texts{"cpu": "100m"})},
		{name: "autoscaled with a large limit", autoscaled: true, block: requirements(nil, texts{"cpu": "2"}),
			want: requirements(texts{"cpu": "250m"}, texts{"cpu": "2"})},
		{name: "autoscaled with memory only", autoscaled: true, block: requirements(nil, texts{"memory": "1Gi"}),
			want: requirements(texts{"cpu": "250m"}, texts{"memory": "1Gi"})},
		{name: "large exponent of zero", block: requirements(texts{"memory": "0e2000000000"}, nil), want: requirements(texts{"memory": "0"}, nil)},
	}
	for _, tt := range tests {
		for _, name := range Names() {
			t.Run(tt.name+"/"+string(name), func(t *testing.T) {
				t.Parallel()
				rendered := render(t, name, request(func(r *Request) {
					r.Server.Resources = tt.block
					if tt.autoscaled {
						r.Autoscaling = &Autoscaling{MaxReplicas: 2}
					}
				}))
				check(t, "resources", &template(rendered).Spec.Containers[0].Resources, tt.want)
			})
		}
	}
}

func TestMaxMemory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		block *corev1.ResourceRequirements
		want  string
	}{
		{name: "default", want: "6871947674"},
		{name: "empty", block: &corev1.ResourceRequirements{}, want: "6871947674"},
		{name: "request only", block: requirements(texts{"memory": "1Gi"}, nil), want: "6871947674"},
		{name: "zero", block: requirements(nil, texts{"memory": "0"}), want: "6871947674"},
		{name: "negative", block: requirements(nil, texts{"memory": "-1Gi"}), want: "6871947674"},
		{name: "8Gi", block: requirements(nil, texts{"memory": "8Gi"}), want: "6871947674"},
		{name: "4Gi", block: requirements(texts{"memory": "2Gi"}, texts{"memory": "4Gi"}), want: "3435973837"},
		{name: "100Mi", block: requirements(nil, texts{"memory": "100Mi"}), want: "83886080"},
		{name: "173", block: requirements(nil, texts{"memory": "173"}), want: "139"},
		{name: "1", block: requirements(nil, texts{"memory": "1"}), want: "1"},
		{name: "half a byte", block: requirements(nil, texts{"memory": "500m"}), want: "1"},
		{name: "most", block: requirements(nil, texts{"memory": "8Ei"}), want: "7378697629483820646"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := template(render(t, "Redis", request(func(r *Request) { r.Server.Resources = tt.block }))).Spec.Containers[0].Args
			check(t, "argument", args[8], tt.want)
			check(t, "flag", args[7], "--maxmemory")
		})
	}
}

func TestQuantitiesOutOfRange(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1e2000000000", "1e2000000001", "-1e2000000000", "1e19", "9223372036854775808", "123456789e1999999999"} {
		for _, block := range []*corev1.ResourceRequirements{
			requirements(texts{"cpu": text}, nil),
			requirements(nil, texts{"memory": text}),
		} {
			start := time.Now()
			for _, name := range Names() {
				for _, autoscaling := range []*Autoscaling{nil, {MaxReplicas: 2}} {
					provider, _ := Lookup(name)
					_, err := Render(provider, request(func(r *Request) {
						r.Server.Resources = block
						r.Autoscaling = autoscaling
					}))
					if err == nil {
						t.Errorf("%s renders %s", name, text)
					}
				}
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s took %s", text, took)
			}
		}
	}
	provider, _ := Lookup("Redis")
	_, err := Render(provider, request(func(r *Request) {
		r.Server.Resources = requirements(texts{"cpu": "1"}, texts{"memory": "1e2000000000"})
	}))
	check(t, "error", err.Error(), "rendering resources: limits: memory: the quantity is out of range")
}

func TestNormalizeQuantity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0": "0", "0e2000000000": "0", "1n": "1m", "-1500u": "-2m", "1.0005": "1001m", "250m": "250m", "8Gi": "8Gi",
		"9223372036854775807": "9223372036854775807", "1e18": "1e18", "16Ei": "9223372036854775807",
	} {
		quantity := resource.MustParse(text)
		got, err := normalizeQuantity(quantity)
		if err != nil || got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s becomes %s, %v, want %s", text, got.String(), err, want)
		}
	}
	if got, err := normalizeQuantity(*resource.NewQuantity(math.MinInt64, resource.DecimalSI)); err != nil {
		t.Errorf("the least quantity becomes %s, %v", got.String(), err)
	}
}
