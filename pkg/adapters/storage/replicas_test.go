// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestReplicas(t *testing.T) {
	t.Parallel()
	n := func(count int32) *int32 { return &count }
	between := func(low *int32, high int32) *Autoscaling { return &Autoscaling{MinReplicas: low, MaxReplicas: high} }
	tests := []struct {
		name        string
		provider    v1alpha1.StorageProvider
		usage       Usage
		replicas    *int32
		autoscaling *Autoscaling
		live        *int32

		create, update, want int32
		hpa                  bool
	}{
		{name: "default", create: 1, update: 1, want: 1},
		{name: "fixed", replicas: n(3), live: n(1), create: 3, update: 3, want: 3},
		{name: "drift", replicas: n(2), live: n(7), create: 2, update: 2, want: 2},
		{name: "off", replicas: n(0), live: n(1), create: 0, update: 0, want: 0},
		{name: "autoscaled", replicas: n(9), autoscaling: between(n(3), 6), live: n(3), create: 3, update: 3, want: 3, hpa: true},
		{name: "scaled up", replicas: n(1), autoscaling: between(n(3), 6), live: n(5), create: 3, update: 5, want: 5, hpa: true},
		{name: "above the bounds", autoscaling: between(n(3), 6), live: n(8), create: 3, update: 8, want: 8, hpa: true},
		{name: "below the floor", autoscaling: between(n(6), 9), live: n(5), create: 6, update: 6, want: 5, hpa: true},
		{name: "no floor", replicas: n(4), autoscaling: between(nil, 6), live: n(0), create: 1, update: 1, want: 0, hpa: true},
		{name: "live without a number", autoscaling: between(nil, 6), create: 1, update: 1, want: 1, hpa: true},
		{name: "Mooncake is single", provider: "Mooncake", replicas: n(3), live: n(3), create: 1, update: 1, want: 1},
		{name: "Mooncake is single and autoscaled", provider: "Mooncake", replicas: n(3), autoscaling: between(n(2), 6), live: n(3), create: 1, update: 1, want: 1},
		{name: "Mooncake is off", provider: "Mooncake", replicas: n(0), live: n(1), create: 0, update: 0, want: 0},
		{name: "Redis for SGLang is single", provider: "Redis", usage: sglang, replicas: n(3), autoscaling: between(n(2), 6), live: n(3), create: 1, update: 1, want: 1},
		{name: "Redis for others is not", provider: "Redis", replicas: n(3), live: n(1), create: 3, update: 3, want: 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
				if tt.provider == "" {
					tt.provider = "LMCacheServer"
				}
				if tt.usage == (Usage{}) {
					tt.usage = vllm
				}
				rendered := render(t, tt.provider, request(func(r *Request) {
					r.Kind, r.Usage, r.Replicas, r.Autoscaling = kind, tt.usage, tt.replicas, tt.autoscaling
				}))
				check(t, "on create", rendered.Replicas.OnCreate(), tt.create)
				check(t, "on update", rendered.Replicas.OnUpdate(tt.live), tt.update)
				check(t, "wanted", rendered.Replicas.Want(tt.live), tt.want)
				check(t, "autoscaler", rendered.HPA != nil, tt.hpa)
				check(t, "rendered", *workloadReplicas(rendered), tt.create)
			}
		})
	}
}

func workloadReplicas(rendered *Rendered) *int32 {
	if rendered.StatefulSet != nil {
		return rendered.StatefulSet.Spec.Replicas
	}
	return rendered.Deployment.Spec.Replicas
}

func TestHPA(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		autoscaling     Autoscaling
		low, high, goal int32
	}{
		{name: "defaults", autoscaling: Autoscaling{MaxReplicas: 4}, low: 1, high: 4, goal: 80},
		{name: "all set", autoscaling: Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 5, TargetCPUUtilizationPercent: new(int32(55))}, low: 2, high: 5, goal: 55},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := render(t, "LMCacheServer", request(func(r *Request) { r.Autoscaling = &tt.autoscaling })).HPA.Spec
			check(t, "minimum", *spec.MinReplicas, tt.low)
			check(t, "maximum", spec.MaxReplicas, tt.high)
			check(t, "goal", *spec.Metrics[0].Resource.Target.AverageUtilization, tt.goal)
			if spec.Behavior != nil || len(spec.Metrics) != 1 {
				t.Errorf("spec is %v", spec)
			}
		})
	}
}
