// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitBackendReady()
	before := s.object("Deployment").(*appsv1.Deployment)
	port := s.object("Service").(*corev1.Service).Spec.Ports[0].Port

	s.kubectl("patch", "service", s.name, "--type=json", `-p=[{"op":"replace","path":"/spec/ports/0/port","value":9999}]`)
	s.kubectl("set", "image", "deployment", s.name, "*=example.com/other:v1")
	s.kubectl("scale", "deployment", s.name, "--replicas=3")
	// Without this label the controller's cache does not hold the object.
	s.kubectl("label", "deployment", s.name, storage.LabelManagedBy+"-")
	s.kubectl("annotate", "deployment", s.name, "example.com/note=kept")

	eventually(t, "the objects are as they were", func(ctx context.Context) error {
		service, err := env.kube.CoreV1().Services(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		deployment, err := env.kube.AppsV1().Deployments(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		containers := deployment.Spec.Template.Spec.Containers
		switch {
		case service.Spec.Ports[0].Port != port:
			return fmt.Errorf("the port is %d", service.Spec.Ports[0].Port)
		case containers[0].Image != before.Spec.Template.Spec.Containers[0].Image:
			return fmt.Errorf("the image is %s", containers[0].Image)
		case *deployment.Spec.Replicas != 1:
			return fmt.Errorf("there are %d replicas", *deployment.Spec.Replicas)
		case deployment.Labels[storage.LabelManagedBy] != storage.ManagedByValue:
			return fmt.Errorf("the labels are %v", deployment.Labels)
		case deployment.UID != before.UID || deployment.Annotations["example.com/note"] != "kept":
			t.Fatal("the Deployment was replaced, or what is not ours changed")
		}
		return nil
	})
	s.waitBackendReady()
}

func TestDeletedObjectsComeBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := create(t, deploymentKind(kind), autoscaled(1, 2))
			s.waitBackendReady()
			for _, deleted := range []string{string(kind), "Service", "HorizontalPodAutoscaler"} {
				before := s.object(deleted).GetUID()
				s.kubectl("delete", deleted, s.name)
				eventually(t, "there is another "+deleted, func(ctx context.Context) error {
					object, err := s.read(ctx, deleted)
					if err == nil && object.GetUID() == before {
						err = errors.New("it is still the one before")
					}
					return err
				})
			}
			s.waitBackendReady()
		})
	}
}

func TestForeignDeployment(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	labels := map[string]string{"app": "somebody-elses"}
	theirs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs"}}},
			},
		},
	}
	theirs, err := env.kube.AppsV1().Deployments(s.namespace).Create(t.Context(), theirs, metav1.CreateOptions{})
	must(t, err)
	s.create(autoscaled(1, 2))

	if s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonWorkloadConflict).Status.ObservedGeneration != 0 {
		t.Error("the generation counts as observed")
	}
	s.waitEvents(v1alpha1.EventWorkloadConflict)
	s.waitObjects("Deployment")
	if live := s.object("Deployment").(*appsv1.Deployment); live.Generation != theirs.Generation || len(live.OwnerReferences) != 0 {
		t.Errorf("the Deployment was changed: %+v", live)
	}
	s.kubectl("delete", "deployment", s.name)
	s.waitBackendReady()
	s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
	s.waitEvents(v1alpha1.EventWorkloadConflict)
}

func TestForeignService(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	_, err := env.kube.CoreV1().Services(s.namespace).Create(t.Context(), service, metav1.CreateOptions{})
	must(t, err)
	s.create()
	status := s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonWorkloadConflict).Status
	if status.Endpoint != "" || status.ObservedGeneration != 0 {
		t.Errorf("the status is %+v", status)
	}
	s.waitObjects("Deployment", "Service")
	s.kubectl("delete", "service", s.name)
	s.waitBackendReady()
}

// TestOrphanIsAdopted: what a deleted backend has left behind is the next one's of that name.
func TestOrphanIsAdopted(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitBackendReady()
	uid := s.object("Deployment").GetUID()
	s.kubectl("delete", "cachebackend", s.name, "--cascade=orphan")
	s.create()
	backend := s.waitBackendReady()
	deployment := s.object("Deployment")
	if owner := metav1.GetControllerOf(deployment); deployment.GetUID() != uid || owner == nil || owner.UID != backend.UID {
		t.Errorf("the Deployment is %s of %v, want %s", deployment.GetUID(), owner, uid)
	}
}
