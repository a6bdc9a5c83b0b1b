// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

func TestMutateService(t *testing.T) {
	t.Parallel()
	others := func(s *corev1.Service) {
		s.Labels["team"] = "a"
		s.Annotations = map[string]string{"a": "b"}
		s.Spec.ClusterIP = "10.0.0.1"
		s.Spec.ClusterIPs = []string{"10.0.0.1"}
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	tests := []struct {
		name string
		live func(*corev1.Service)
		want func(*corev1.Service)
	}{
		{name: "nothing", live: func(*corev1.Service) {}},
		{name: "drift", live: func(s *corev1.Service) {
			s.Labels = nil
			s.OwnerReferences = nil
			s.Spec.Selector["app"] = "cache"
			s.Spec.Ports[0].Port = 9999
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 1})
		}},
		{name: "load balancer", live: func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			s.Spec.Ports[0].NodePort = 30000
			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
			s.Spec.LoadBalancerClass = new("example.com/lb")
			s.Spec.AllocateLoadBalancerNodePorts = new(true)
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			s.Spec.HealthCheckNodePort = 30001
		}},
		{name: "external name", live: func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeExternalName
			s.Spec.ExternalName = "example.com"
		}},
		{name: "what others own", live: others, want: others},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			desired := render(t, "LMCacheServer", request(nil))
			live, want := desired.Service.DeepCopy(), desired.Service.DeepCopy()
			tt.live(live)
			if tt.want != nil {
				tt.want(want)
			}
			before := live.DeepCopy()
			mutated, immutable := MutateService(live, desired)
			check(t, "mutated", mutated, want)
			check(t, "immutable", immutable, []string(nil))
			check(t, "live", live, before)
		})
	}
}

func TestMutateServiceBetweenAddresses(t *testing.T) {
	t.Parallel()
	virtual := render(t, "Redis", request(nil))
	headless := render(t, "Mooncake", request(nil))
	tests := []struct {
		live    string
		desired *Rendered
		replace bool
	}{
		{live: "10.0.0.1", desired: virtual},
		{live: "10.0.0.1", desired: headless, replace: true},
		{live: "None", desired: headless},
		{live: "None", desired: virtual, replace: true},
		{live: "", desired: virtual},
		{live: "", desired: headless},
	}
	for _, tt := range tests {
		live := virtual.Service.DeepCopy()
		live.Spec.ClusterIP = tt.live
		mutated, immutable := MutateService(live, tt.desired)
		check(t, "address", mutated.Spec.ClusterIP, tt.live)
		check(t, "ports", mutated.Spec.Ports, tt.desired.Service.Spec.Ports)
		var want []string
		if tt.replace {
			want = []string{"spec.clusterIP"}
		}
		check(t, "immutable", immutable, want)
	}
}

func TestMutateHPA(t *testing.T) {
	t.Parallel()
	desired := render(t, "LMCacheServer", request(func(r *Request) { r.Autoscaling = &Autoscaling{MaxReplicas: 4} }))
	live := desired.HPA.DeepCopy()
	live.Labels = map[string]string{"team": "a"}
	live.Annotations = map[string]string{"a": "b"}
	live.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		MaxReplicas: 9,
		Behavior:    &autoscalingv2.HorizontalPodAutoscalerBehavior{},
	}
	live.Status.CurrentReplicas = 3
	want := desired.HPA.DeepCopy()
	want.Labels["team"] = "a"
	want.Annotations = live.Annotations
	want.Status = live.Status
	check(t, "mutated", MutateHPA(live, desired), want)
}

func TestMutateDropsTheLabelOfTheType(t *testing.T) {
	t.Parallel()
	live := render(t, "LMCacheServer", request(nil)).Service
	desired := render(t, "LMCacheServer", request(func(r *Request) { r.Usage.Type = "" }))
	mutated, _ := MutateService(live, desired)
	check(t, "labels", mutated.Labels, SelectorLabels("cache"))
}
