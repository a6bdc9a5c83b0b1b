// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for name, want := range map[v1alpha1.StorageProvider]string{
		"Redis":         "cache.ns1.svc.cluster.local:6379",
		"LMCacheServer": "cache.ns1.svc.cluster.local:65432",
		"Mooncake":      "cache.ns1.svc.cluster.local:50051",
	} {
		check(t, string(name), Endpoint(render(t, name, request(nil)).Service, backendUID), want)
	}
}

func TestEndpointOfOtherServices(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Service){
		"nobody's":        func(s *corev1.Service) { s.OwnerReferences = nil },
		"somebody else's": func(s *corev1.Service) { s.OwnerReferences[0].UID = "other" },
		"owned only":      func(s *corev1.Service) { s.OwnerReferences[0].Controller = new(false) },
		"without ports":   func(s *corev1.Service) { s.Spec.Ports = nil },
	} {
		service := render(t, "Redis", request(nil)).Service
		change(service)
		check(t, name, Endpoint(service, backendUID), "")
	}
	check(t, "none", Endpoint(nil, backendUID), "")

	// The live Service is what engines connect to, not the one that is wanted.
	service := render(t, "Redis", request(nil)).Service
	service.Spec.Ports[0].Port = 9999
	service.OwnerReferences = append([]metav1.OwnerReference{{UID: "other"}}, service.OwnerReferences...)
	check(t, "changed port", Endpoint(service, backendUID), "cache.ns1.svc.cluster.local:9999")
}
