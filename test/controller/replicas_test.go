// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func replicas(count int32) change {
	return func(b *v1alpha1.CacheBackend) { b.Spec.Replicas = &count }
}

func floor(count int32) change {
	return func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling.MinReplicas = &count }
}

// TestAutoscaling: the count of replicas is the autoscaler's for as long as there is one, and only lifted to the floor.
func TestAutoscaling(t *testing.T) {
	t.Parallel()
	s := create(t, replicas(1), autoscaled(3, 6))
	s.waitBackendReady()
	s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
	s.waitReplicas(3)
	hpa := s.object("HorizontalPodAutoscaler").(*autoscalingv2.HorizontalPodAutoscaler).Spec
	if *hpa.MinReplicas != 3 || hpa.MaxReplicas != 6 || *hpa.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("the autoscaler is %+v", hpa)
	}
	cpu := s.object("Deployment").(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Resources.Requests.Cpu()
	if cpu.String() != "250m" {
		t.Errorf("the CPU request is %s", cpu)
	}

	s.kubectl("scale", "deployment", s.name, "--replicas=5") // As an autoscaler does.
	s.kubectl("wait", "deployment", s.name, "--for=jsonpath={.status.availableReplicas}=5", "--timeout=2m")
	s.edit(func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling.MaxReplicas = 7 })
	s.waitBackendReady()
	s.waitReplicas(5)
	s.edit(floor(6))
	s.waitBackendReady()
	s.waitReplicas(6)
	hpa = s.object("HorizontalPodAutoscaler").(*autoscalingv2.HorizontalPodAutoscaler).Spec
	if *hpa.MinReplicas != 6 || hpa.MaxReplicas != 7 {
		t.Errorf("the bounds of the autoscaler are %d and %d", *hpa.MinReplicas, hpa.MaxReplicas)
	}
	s.edit(replicas(2), func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling = nil })
	s.waitBackendReady()
	s.waitObjects("Deployment", "Service")
	s.waitReplicas(2)
}

// TestScaleUpIsNoDegradation: while the new pods start the backend is on its way, and not broken.
func TestScaleUpIsNoDegradation(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			h := s.record()
			s.create(deploymentKind(kind), s.held)
			s.open()
			s.waitState(up)
			s.close()
			s.edit(replicas(3))
			s.kubectl("wait", string(kind), s.name, "--for=jsonpath={.status.updatedReplicas}=3", "--timeout=2m")
			s.waitReadyMessage("1/3 replicas available.")
			s.open()
			s.waitState(up)
			s.expect(h, "", rollingOut, up, rollingOut, up)
			s.endsWithEvents()
		})
	}
}

// waitReadyMessage waits until Ready says something in words.
func (s *subject) waitReadyMessage(want string) {
	s.Helper()
	eventually(s.T, "Ready says "+want, func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && message(backend, v1alpha1.ConditionReady) != want {
			err = fmt.Errorf("the status is %+v", backend.Status)
		}
		return err
	})
}

func TestScaledToZero(t *testing.T) {
	t.Parallel()
	for _, name := range []v1alpha1.StorageProvider{"LMCacheServer", "Mooncake"} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			s := create(t, provider(name), replicas(0))
			if s.waitState(atZero).Status.Endpoint == "" {
				t.Error("there is no endpoint")
			}
			s.waitReplicas(0)
			s.endsWithEvents()
		})
	}
}

func (s *subject) waitReplicas(want int32) {
	s.Helper()
	eventually(s.T, "the Deployment has its replicas", func(ctx context.Context) error {
		deployment, err := env.kube.AppsV1().Deployments(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && *deployment.Spec.Replicas != want {
			err = fmt.Errorf("got %d, want %d", *deployment.Spec.Replicas, want)
		}
		return err
	})
}
