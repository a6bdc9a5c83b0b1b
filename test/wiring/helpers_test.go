// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"encoding/json"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cluster"
)

// injectionLabel on a namespace, with the value disabled, keeps the webhook out of it.
const injectionLabel = "inferencecache.io/injection"

// newNamespace makes a namespace in which pods can be created. Its removal is not waited for.
func newNamespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	return makeNamespace(t, metav1.ObjectMeta{GenerateName: "wiring-", Labels: labels})
}

func makeNamespace(t testing.TB, meta metav1.ObjectMeta) string {
	t.Helper()
	namespace, err := env.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = env.kube.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})
	})
	waitPodsAllowed(t, namespace.Name)
	return namespace.Name
}

// waitPodsAllowed waits for the account that pods have unless they name another.
func waitPodsAllowed(t testing.TB, namespace string) {
	t.Helper()
	eventually(t, "namespace "+namespace+" has a service account", func(ctx context.Context) error {
		_, err := env.kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// engineLabels are those of newPod, and of the selector of newBackend.
var engineLabels = map[string]string{"serve": "atlas"}

// newPod returns a pod with a vLLM engine, which may run in namespaces with any security standard.
func newPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: engineLabels},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "vllm", Image: "registry.test/serve/vllm:1", Args: []string{"serve", "lab/atlas-9b"},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// newBackend returns a host-only backend that selects the pods of newPod.
func newBackend(namespace, name string) *v1alpha1.CacheBackend {
	return &v1alpha1.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.CacheBackendSpec{
			Runtime:        v1alpha1.RuntimeVLLM,
			Type:           v1alpha1.CacheTypeLMCache,
			EngineSelector: &v1alpha1.EngineSelector{MatchLabels: engineLabels},
		},
	}
}

// createBackend creates a backend and publishes the status that it comes with, as a controller does.
func createBackend(t testing.TB, backend *v1alpha1.CacheBackend) *v1alpha1.CacheBackend {
	t.Helper()
	client := env.inference.InferencecacheV1alpha1().CacheBackends(backend.Namespace)
	created, err := client.Create(t.Context(), backend, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if backend.Status.Endpoint == "" {
		return created
	}
	created.Status.Endpoint = backend.Status.Endpoint
	if created, err = client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return created
}

func removeBackend(t testing.TB, backend *v1alpha1.CacheBackend) {
	t.Helper()
	client := env.inference.InferencecacheV1alpha1().CacheBackends(backend.Namespace)
	if err := client.Delete(context.Background(), backend.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// plant puts a backend into etcd as it is, as a server of another version would have left it.
func plant(t testing.TB, backend *v1alpha1.CacheBackend) {
	t.Helper()
	planted := backend.DeepCopy()
	planted.APIVersion, planted.Kind = v1alpha1.APIVersion.String(), "CacheBackend"
	planted.Generation = 1
	planted.CreationTimestamp = metav1.Now()
	data, err := json.Marshal(planted)
	if err != nil {
		t.Fatal(err)
	}
	key := path.Join(cluster.StorePrefix, v1alpha1.GroupName, "cachebackends", backend.Namespace, backend.Name)
	if _, err := env.etcd.Put(t.Context(), key, string(data)); err != nil {
		t.Fatal(err)
	}
}
