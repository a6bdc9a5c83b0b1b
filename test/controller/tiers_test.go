// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestTiers(t *testing.T) {
	t.Parallel()
	ports := map[v1alpha1.StorageProvider]int{"LMCacheServer": 65432, "Redis": 6379, "Mooncake": 50051}
	for name, port := range ports {
		for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
			t.Run(fmt.Sprintf("%s in a %s", name, kind), func(t *testing.T) {
				t.Parallel()
				s := create(t, provider(name), deploymentKind(kind))
				backend := s.waitBackendReady()
				s.waitObjects(string(kind), "Service")
				if want := fmt.Sprintf("cache.%s.svc.cluster.local:%d", s.namespace, port); backend.Status.Endpoint != want {
					t.Errorf("the endpoint is %q, want %q", backend.Status.Endpoint, want)
				}
				for _, kind := range []string{string(kind), "Service"} {
					if owner := metav1.GetControllerOf(s.object(kind)); owner == nil || owner.UID != backend.UID {
						t.Errorf("the controller of the %s is %v", kind, owner)
					}
				}
				s.waitEvents()
			})
		}
	}
}

func TestKVGate(t *testing.T) {
	t.Parallel()
	s := create(t, waitsForKVEvents)
	backend := s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonAwaitingFirstKVEvent)
	if backend.Status.FirstAvailableAt == nil {
		t.Error("the time for the first KV event has not started")
	}
	s.waitEvents(v1alpha1.EventAwaitingFirstKVEvent)
	s.seesKVEvent()
	s.waitReady(metav1.ConditionTrue, v1alpha1.ReasonKVEventsObserved)
	s.waitEvents(v1alpha1.EventAwaitingFirstKVEvent, v1alpha1.EventKVEventsObserved)
}

func TestScaledToZero(t *testing.T) {
	t.Parallel()
	s := create(t, func(b *v1alpha1.CacheBackend) { b.Spec.Replicas = new(int32(0)) })
	if s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonScaledToZero).Status.Endpoint == "" {
		t.Error("there is no endpoint")
	}
}

func TestEngineSelector(t *testing.T) {
	t.Parallel()
	engines := map[string]string{"serve": "atlas"}
	s := create(t, func(b *v1alpha1.CacheBackend) { b.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: engines} })
	s.waitBackendReady()
	s.waitEvents(v1alpha1.EventEngineSelectorUnmatched)
	if s.backend().Status.EngineSelectorMessage == "" {
		t.Error("nothing says that no pod is selected")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "engine", Labels: engines},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "vllm", Image: "vllm"}}},
	}
	eventually(t, "the engine pod is there", func(ctx context.Context) error { // Its account may not be, yet.
		_, err := env.kube.CoreV1().Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	eventually(t, "the engine pod is counted", func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && (*backend.Status.MatchedEnginePods != 1 || backend.Status.EngineSelectorMessage != "") {
			err = fmt.Errorf("the status is %+v", backend.Status)
		}
		return err
	})
}

func TestAutoscaling(t *testing.T) {
	t.Parallel()
	s := create(t, autoscaled(2, 6))
	s.waitBackendReady()
	s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
	s.kubectl("scale", "deployment", s.name, "--replicas=4") // As an autoscaler does.
	s.kubectl("wait", "deployment", s.name, "--for=jsonpath={.status.availableReplicas}=4", "--timeout=1m")
	s.edit(func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling.MaxReplicas = 5 })
	eventually(t, "the autoscaler knows its new bound", func(ctx context.Context) error {
		hpa, err := env.kube.AutoscalingV2().HorizontalPodAutoscalers(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && hpa.Spec.MaxReplicas != 5 {
			err = fmt.Errorf("it is %d", hpa.Spec.MaxReplicas)
		}
		return err
	})
	s.waitBackendReady()
	s.waitReplicas(4)
	s.edit(func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling, b.Spec.Replicas = nil, new(int32(1)) })
	s.waitBackendReady()
	s.waitObjects("Deployment", "Service")
	s.waitReplicas(1)
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
