// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// TestMatchedEnginePods: pods are not watched. Where nobody touches the backend the controller finds them by looking again.
func TestMatchedEnginePods(t *testing.T) {
	t.Parallel()
	engines := map[string]string{"b": "2", "a": "1"}
	// Without a tier there are no other pods in the namespace, which the quota below would count.
	s := create(t, hostOnly, func(b *v1alpha1.CacheBackend) { b.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: engines} })
	const unmatched = "spec.engineSelector.matchLabels={a:1,b:2}: no Pods in namespace match"
	s.waitMatched(0, unmatched)
	s.waitEvents(v1alpha1.EventEngineSelectorUnmatched)

	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "engine"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: engines},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: engines},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "vllm", Image: "vllm"}}},
			},
		},
	}
	_, err := env.kube.AppsV1().Deployments(s.namespace).Create(t.Context(), deployment, metav1.CreateOptions{})
	must(t, err)
	s.touch()
	s.waitMatched(0, "") // The engines are off on purpose.

	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "one-pod"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}
	_, err = env.kube.CoreV1().ResourceQuotas(s.namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	must(t, err)
	s.kubectl("wait", "resourcequota", quota.Name, "--for=jsonpath={.status.hard.pods}=1", "--timeout=2m")
	s.kubectl("scale", "deployment", deployment.Name, "--replicas=2")
	s.waitMatched(1, "")
	s.kubectl("delete", "resourcequota", quota.Name)
	s.waitMatched(2, "")

	failed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "failed", Labels: engines, Annotations: map[string]string{"fake.inferencecache.io/exit-code.setup": "1"},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:  corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "setup", Image: "setup"}},
			Containers:     []corev1.Container{{Name: "vllm", Image: "vllm"}},
		},
	}
	// The Deployment's ReplicaSet would take over a pod that nobody controls, and delete it.
	owner, err := env.kube.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "owner"},
	}, metav1.CreateOptions{})
	must(t, err)
	failed.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	_, err = env.kube.CoreV1().Pods(s.namespace).Create(t.Context(), failed, metav1.CreateOptions{})
	must(t, err)
	s.kubectl("wait", "pod", failed.Name, "--for=jsonpath={.status.phase}=Failed", "--timeout=2m")
	s.touch()
	s.waitMatched(3, "") // Of every phase.
	s.endsWithEvents(v1alpha1.EventEngineSelectorUnmatched)
}

// touch has the controller look at the backend now.
func (s *subject) touch() {
	s.Helper()
	s.kubectl("annotate", "cachebackend", s.name, "--overwrite", "example.com/touched="+strconv.FormatInt(time.Now().UnixNano(), 10))
}

func (s *subject) waitMatched(count int32, message string) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("%d pods are matched", count), func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status := backend.Status
		if status.MatchedEnginePods == nil || *status.MatchedEnginePods != count {
			return fmt.Errorf("the status is %+v", status)
		}
		if said := status.EngineSelectorMessage; (said == "") != (message == "") || !strings.Contains(said, message) {
			return fmt.Errorf("the message is %q", said)
		}
		return nil
	})
}
