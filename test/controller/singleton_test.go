// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

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

// TestTwoOfASingleton: a backend with more than one replica of a tier that cannot be doubled is refused today. One that is
// stored all the same is run with one, and without an autoscaler.
func TestTwoOfASingleton(t *testing.T) {
	t.Parallel()
	for _, name := range []v1alpha1.StorageProvider{"Mooncake", "Redis"} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			s := create(t, replicas(3), autoscaled(3, 6))
			s.waitBackendReady()
			s.waitReplicas(3)
			s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
			s.store(provider(name))
			s.waitBackendReady()
			s.waitObjects("Deployment", "Service")
			s.waitReplicas(1)
			if got, want := message(s.backend(), v1alpha1.ConditionReady), "1/1 replicas available."; got != want {
				t.Errorf("Ready says %q, want %q", got, want)
			}
		})
	}
}
