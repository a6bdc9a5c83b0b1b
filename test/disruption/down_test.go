// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// TestServerDown asserts what the operations guide says of a cluster without our server: everything else works, requests
// for our kinds are refused at once and intelligibly, and discovery tells what it can.
func TestServerDown(t *testing.T) {
	installed(t)
	kubectl(t, "get", "cb", "-A") // so that kubectl has seen our kinds
	stop(t)
	waitAvailable(t, apiregistrationv1.ConditionFalse)

	namespace := newNamespace(t)
	createPod(t, namespace)
	eventually(t, "the pod runs", func(context.Context) error {
		if out := kubectl(t, "-n", namespace, "get", "pods"); !strings.Contains(out, "Running") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	kubectl(t, "-n", namespace, "delete", "pod", "engine")

	collection := "/apis/" + groupVersion + "/namespaces/" + namespace + "/cachebackends"
	if got := aggregated(t).ask(t, http.MethodGet, collection, ""); got.code != http.StatusServiceUnavailable {
		t.Errorf("a list is answered %d %s", got.code, got.body)
	}
	_, stderr, err := host.Kubectl(t.Context(), "get", "cb", "-A")
	if err == nil || !strings.Contains(stderr, "the server is currently unable to handle the request (get cachebackends.inferencecache.io)") {
		t.Errorf("kubectl get cb (error %v): %s", err, stderr)
	}
	expectPartialDiscovery(t)
}

// expectPartialDiscovery demands that discovery goes on without our group. Whether kubectl complains of that is its own
// affair; one that has not seen our kinds before says that it knows no such kind.
func expectPartialDiscovery(t *testing.T) {
	t.Helper()
	eventually(t, "discovery leaves our group out", func(ctx context.Context) error {
		stdout, _, _ := host.Kubectl(ctx, "api-resources")
		if !strings.Contains(stdout, "deployments") || !strings.Contains(stdout, "apiservices") {
			return fmt.Errorf("kubectl api-resources hides the other groups: %s", stdout)
		}
		if strings.Contains(stdout, "inferencecache.io") {
			return fmt.Errorf("kubectl api-resources shows our group: %s", stdout)
		}
		return nil
	})
	_, stderr, err := host.Kubectl(t.Context(), "get", "cb", "-A")
	if err == nil || !strings.Contains(stderr, "the server doesn't have a resource type") {
		t.Errorf("kubectl get cb (error %v): %s", err, stderr)
	}
	kubectl(t, "get", "pods", "-A")
}

func createPod(t *testing.T, namespace string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "engine"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "engine"}}},
	}
	eventually(t, "a pod can be created", func(ctx context.Context) error {
		_, err := kube(t).CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err // a new namespace has no service account for a moment
	})
}

// TestNamespaceDeletionWaits asserts that a namespace whose deletion is asked for while the server is down is not gone
// before its backends are: it stays in the state Terminating, with a condition that names our group, and is deleted
// together with them when the server is back.
func TestNamespaceDeletionWaits(t *testing.T) {
	installed(t)
	namespace := newNamespace(t)
	createBackend(t, namespace, "held")
	stop(t)
	waitAvailable(t, apiregistrationv1.ConditionFalse)

	namespaces := kube(t).CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace says what it waits for", func(ctx context.Context) error {
		got, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the namespace is gone before its backends: %v", err)
		}
		for _, condition := range got.Status.Conditions {
			failing := condition.Type == corev1.NamespaceDeletionDiscoveryFailure || condition.Type == corev1.NamespaceDeletionContentFailure
			if failing && condition.Status == corev1.ConditionTrue && strings.Contains(condition.Message, "inferencecache.io") {
				t.Logf("%s: %s", condition.Type, condition.Message)
				return nil
			}
		}
		return fmt.Errorf("status is %+v", got.Status)
	})

	start(t)
	waitServing(t)
	eventually(t, "the namespace is deleted", func(ctx context.Context) error {
		got, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there (error %w): %+v", err, got)
	})
	_, err := ours(t).InferencecacheV1alpha1().CacheBackends(namespace).Get(t.Context(), "held", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the backend of a namespace that is gone: error %v, want that it is not found", err)
	}
}
