// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestLeavingManaged(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   change
		reason   string
		endpoint string
	}{
		{name: "external", reason: v1alpha1.ReasonExternalEndpointAccepted, endpoint: "lm://cache.example.com:8200",
			change: func(b *v1alpha1.CacheBackend) {
				b.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{
					Provider: v1alpha1.StorageProviderLMCacheServer, Ownership: v1alpha1.StorageOwnershipExternal,
					Endpoint: "lm://cache.example.com:8200",
				}
			}},
		{name: "host-only", reason: v1alpha1.ReasonHostOnlyActive,
			change: func(b *v1alpha1.CacheBackend) { b.Spec.RemoteStorage = nil }},
		{name: "events only", reason: v1alpha1.ReasonEventsOnlyActive,
			change: func(b *v1alpha1.CacheBackend) {
				b.Spec.RemoteStorage = nil
				b.Spec.Integration = &v1alpha1.IntegrationSpec{Mode: v1alpha1.IntegrationModeEventsOnly}
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := create(t, autoscaled(1, 2))
			s.waitBackendReady()
			s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
			s.edit(tt.change, func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling = nil })
			s.waitObjects()
			if status := s.waitReady(metav1.ConditionTrue, tt.reason).Status; status.Endpoint != tt.endpoint {
				t.Errorf("the endpoint is %q, want %q", status.Endpoint, tt.endpoint)
			}
			s.edit(provider(v1alpha1.StorageProviderLMCacheServer), func(b *v1alpha1.CacheBackend) { b.Spec.Integration = nil })
			s.waitBackendReady()
			s.waitObjects("Deployment", "Service")
		})
	}
}

func TestChangeOfKind(t *testing.T) {
	t.Parallel()
	for _, name := range []v1alpha1.StorageProvider{"LMCacheServer", "Mooncake"} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			s := create(t, provider(name))
			first := s.waitBackendReady().Status.FirstAvailableAt
			s.edit(deploymentKind("StatefulSet"))
			s.waitObjects("StatefulSet", "Service")
			s.waitBackendReady()
			s.edit(deploymentKind("Deployment"))
			s.waitObjects("Deployment", "Service")
			if again := s.waitBackendReady().Status.FirstAvailableAt; !first.Equal(again) {
				t.Errorf("the backend is available since %s, not %s", again, first)
			}
			s.waitEvents()
		})
	}
}

// TestSingletonIsNeverTwo: the pods of the former kind are gone before the new workload is made.
func TestSingletonIsNeverTwo(t *testing.T) {
	t.Parallel()
	s := create(t, provider(v1alpha1.StorageProviderRedis))
	s.waitBackendReady()
	pods, err := env.kube.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, pod := range pods.Items { // A pod that cannot go yet.
		s.kubectl("patch", "pod", pod.Name, `-p={"metadata":{"finalizers":["example.com/hold"]}}`)
	}
	s.edit(deploymentKind("StatefulSet"))
	eventually(t, "the old pod is to go", func(ctx context.Context) error {
		pod, err := env.kube.CoreV1().Pods(s.namespace).Get(ctx, pods.Items[0].Name, metav1.GetOptions{})
		if err == nil && pod.DeletionTimestamp == nil {
			err = errors.New("it is not deleted")
		}
		return err
	})
	eventually(t, "the backend is not ready", func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && apimeta.IsStatusConditionTrue(backend.Status.Conditions, v1alpha1.ConditionReady) {
			err = errors.New("it is ready")
		}
		return err
	})
	if _, err := s.read(t.Context(), "StatefulSet"); !apierrors.IsNotFound(err) {
		t.Errorf("reading the StatefulSet while there is a pod of the Deployment: %v", err)
	}
	for _, pod := range pods.Items {
		s.kubectl("patch", "pod", pod.Name, `-p={"metadata":{"finalizers":null}}`)
	}
	s.waitBackendReady()
	s.waitObjects("StatefulSet", "Service")
}

func TestChangeOfProvider(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitBackendReady()
	uid := s.object("Deployment").GetUID()
	for _, name := range []v1alpha1.StorageProvider{"Mooncake", "LMCacheServer"} {
		headless := name == v1alpha1.StorageProviderMooncake
		s.edit(provider(name))
		eventually(t, "the Service is that of "+string(name), func(ctx context.Context) error {
			service, err := env.kube.CoreV1().Services(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
			if err == nil && (service.Spec.ClusterIP == corev1.ClusterIPNone) != headless {
				err = fmt.Errorf("its address is %s", service.Spec.ClusterIP)
			}
			return err
		})
		s.waitBackendReady()
	}
	if s.object("Deployment").GetUID() != uid {
		t.Error("the Deployment was replaced")
	}
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"background", "foreground"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := create(t, autoscaled(1, 2))
			s.waitBackendReady()
			s.kubectl("delete", "cachebackend", s.name, "--cascade="+how, "--timeout=2m")
			s.waitObjects()
		})
	}
}
