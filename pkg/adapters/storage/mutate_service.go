// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// MutateService is for the Service of a backend. Between a virtual address and none there
// is no way but a new Service.
func MutateService(live *corev1.Service, rendered *Rendered) (*corev1.Service, []string) {
	desired := rendered.Service
	mutated := live.DeepCopy()
	ownMeta(&mutated.ObjectMeta, &desired.ObjectMeta)
	if mutated.Spec.Type != desired.Spec.Type {
		mutated.Spec.Type = desired.Spec.Type
		clearOtherTypes(&mutated.Spec)
	}
	mutated.Spec.Selector = maps.Clone(desired.Spec.Selector)
	// The whole list, as port names must be unique.
	mutated.Spec.Ports = desired.DeepCopy().Spec.Ports
	// A Service has no address only until it is given one.
	if live.Spec.ClusterIP != "" && headless(live) != headless(desired) {
		return mutated, []string{"spec.clusterIP"}
	}
	return mutated, nil
}

// clearOtherTypes clears what is refused in a Service of type ClusterIP. The API server
// drops some of it by itself, and only if it is left alone.
func clearOtherTypes(spec *corev1.ServiceSpec) {
	spec.ExternalName = ""
	spec.LoadBalancerSourceRanges = nil
	spec.LoadBalancerClass = nil
	spec.AllocateLoadBalancerNodePorts = nil
	spec.ExternalTrafficPolicy = ""
	spec.HealthCheckNodePort = 0
}

func headless(service *corev1.Service) bool {
	return service.Spec.ClusterIP == corev1.ClusterIPNone
}
