// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// TestForeignDeployment: a Deployment that is somebody else's is left as it is, however well it runs.
func TestForeignDeployment(t *testing.T) {
	t.Parallel()
	for _, controlled := range []bool{false, true} {
		name := "made by a user"
		if controlled {
			name = "controlled by another object"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			theirs := s.foreignDeployment(controlled)
			h := s.record()
			s.create(autoscaled(1, 2))

			backend := s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonWorkloadConflict)
			if got := message(backend, v1alpha1.ConditionReady); !strings.Contains(got, "Deployment cache") {
				t.Errorf("Ready says %q", got)
			}
			if status := backend.Status; status.ObservedGeneration != 0 || status.Endpoint != "" {
				t.Errorf("the status is %+v", status)
			}
			s.waitEvents(v1alpha1.EventWorkloadConflict)
			s.waitObjects("Deployment")
			if live := s.object("Deployment"); live.GetUID() != theirs.UID || live.GetGeneration() != theirs.Generation ||
				len(live.GetOwnerReferences()) != len(theirs.OwnerReferences) || len(live.GetLabels()) != len(theirs.Labels) {
				t.Errorf("the Deployment was changed: %+v", live)
			}
			s.kubectl("delete", "deployment", s.name)
			s.waitState(up)
			s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
			s.expect(h, "", conflicting, rollingOut, up)
			s.endsWithEvents(v1alpha1.EventWorkloadConflict)
		})
	}
}

// foreignDeployment makes a Deployment with the backend's name and waits until it is available.
func (s *subject) foreignDeployment(controlled bool) *appsv1.Deployment {
	s.Helper()
	labels := map[string]string{"app": "somebody-elses"}
	theirs := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs"}}},
			},
		},
	}
	if controlled {
		owner, err := env.kube.CoreV1().ConfigMaps(s.namespace).Create(s.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "owner"},
		}, metav1.CreateOptions{})
		must(s.T, err)
		theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	}
	theirs, err := env.kube.AppsV1().Deployments(s.namespace).Create(s.Context(), theirs, metav1.CreateOptions{})
	must(s.T, err)
	s.kubectl("wait", "deployment", s.name, "--for=condition=Available", "--timeout=2m")
	return theirs
}

// TestForeignServiceOrAutoscaler: the workload is made all the same, but nobody is sent to an address that is not the
// backend's.
func TestForeignServiceOrAutoscaler(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind     string
		args     []string
		endpoint bool
	}{
		{"Service", []string{"create", "service", "clusterip", "cache", "--tcp=80"}, false},
		{"HorizontalPodAutoscaler", []string{"autoscale", "deployment", "cache", "--min=1", "--max=9"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			theirs := s.foreignObject(tt.kind, tt.args)
			s.create(autoscaled(1, 2))
			backend := s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonWorkloadConflict)
			status := backend.Status
			if (status.Endpoint != "") != tt.endpoint || status.ObservedGeneration != 0 {
				t.Errorf("the status is %+v", status)
			}
			if got := message(backend, v1alpha1.ConditionReady); !strings.Contains(got, tt.kind+" cache") {
				t.Errorf("Ready says %q", got)
			}
			s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
			if live := s.object(tt.kind); live.GetUID() != theirs.GetUID() || len(live.GetOwnerReferences()) != 0 {
				t.Errorf("the %s was changed: %+v", tt.kind, live)
			}
			s.kubectl("delete", tt.kind, s.name)
			if s.waitState(up).Status.Endpoint == "" {
				t.Error("there is no endpoint")
			}
			s.endsWithEvents(v1alpha1.EventWorkloadConflict)
		})
	}
}

// foreignObject makes an object with the backend's name. An autoscaler is made of a Deployment, which goes again.
func (s *subject) foreignObject(kind string, args []string) metav1.Object {
	s.Helper()
	if kind == "HorizontalPodAutoscaler" {
		s.foreignDeployment(false)
		defer s.kubectl("delete", "deployment", s.name)
	}
	s.kubectl(args...)
	return s.object(kind)
}
