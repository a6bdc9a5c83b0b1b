// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"path"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	typedv1alpha1 "inferencecache.io/inferencecache/pkg/generated/clientset/versioned/typed/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cluster"
)

// patience bounds every wait. It is far above what anything needs, for machines that are busy with other things too.
const patience = 2 * time.Minute

var resources = map[string]schema.GroupVersionResource{
	"CacheBackend": v1alpha1.APIVersion.WithResource("cachebackends"),
	"CachePolicy":  v1alpha1.APIVersion.WithResource("cachepolicies"),
	"CacheTenant":  v1alpha1.APIVersion.WithResource("cachetenants"),
}

// newNamespace makes a namespace for one test. Its removal is not waited for.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	namespace, err := env.kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of a test has ended by the time of its cleanup.
		_ = env.kube.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})
	})
	return namespace.Name
}

func backendsIn(namespace string) typedv1alpha1.CacheBackendInterface {
	return env.inference.InferencecacheV1alpha1().CacheBackends(namespace)
}

// hostOnly returns the smallest backend.
func hostOnly(name string) *v1alpha1.CacheBackend {
	return &v1alpha1.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.CacheBackendSpec{Runtime: v1alpha1.RuntimeVLLM},
	}
}

// external returns a backend with a remote tier that somebody else runs.
func external(name, endpoint string) *v1alpha1.CacheBackend {
	backend := hostOnly(name)
	backend.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{
		Provider:  v1alpha1.StorageProviderLMCacheServer,
		Ownership: v1alpha1.StorageOwnershipExternal,
		Endpoint:  endpoint,
	}
	return backend
}

// managed returns a backend with a remote tier that is ours to run.
func managed(name string) *v1alpha1.CacheBackend {
	backend := hostOnly(name)
	backend.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{
		Provider:  v1alpha1.StorageProviderLMCacheServer,
		Ownership: v1alpha1.StorageOwnershipManaged,
	}
	return backend
}

func createBackend(t *testing.T, namespace string, backend *v1alpha1.CacheBackend) *v1alpha1.CacheBackend {
	t.Helper()
	created, err := backendsIn(namespace).Create(t.Context(), backend, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// minimal returns the smallest object of a kind, named "a".
func minimal(kind string) *unstructured.Unstructured {
	spec := map[string]any{}
	switch kind {
	case "CacheBackend":
		spec["runtime"] = "VLLM"
	case "CacheTenant":
		spec["tenantID"] = "a"
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(v1alpha1.APIVersion.String())
	object.SetKind(kind)
	object.SetName("a")
	return object
}

// forEachKind runs a test for every stored kind, in a namespace of its own that holds one object, named "a".
func forEachKind(t *testing.T, test func(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured)) {
	for kind, resource := range resources {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			client := env.dynamic.Resource(resource).Namespace(newNamespace(t))
			object, err := client.Create(t.Context(), minimal(kind), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			test(t, client, object)
		})
	}
}

// eventually waits until a condition holds. An error ends the wait.
func eventually(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, condition); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// answer is all that a client gets from one request.
type answer struct {
	object   map[string]any
	err      error
	warnings []string
	code     int
}

// send sends a request as it is. The request says everything but the body, which is an object or a patch.
func send(t *testing.T, request *rest.Request, body any) answer {
	t.Helper()
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		request = request.Body(data)
	}
	result := request.Do(t.Context())
	a := answer{err: result.Error()}
	result.StatusCode(&a.code)
	for _, warning := range result.Warnings() {
		a.warnings = append(a.warnings, warning.Text)
	}
	if a.err != nil {
		return a
	}
	data, err := result.Raw()
	if err == nil {
		err = json.Unmarshal(data, &a.object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// requestTo begins a request to the objects of a kind, with a JSON body.
func requestTo(verb, kind, namespace string) *rest.Request {
	client := env.inference.InferencecacheV1alpha1().RESTClient()
	return client.Verb(verb).Namespace(namespace).Resource(resources[kind].Resource).SetHeader("Content-Type", "application/json")
}

func keyOf(kind, namespace, name string) string {
	return path.Join(cluster.StorePrefix, v1alpha1.GroupName, resources[kind].Resource, namespace, name)
}

// plant puts an object into etcd as it is, as an older server would have left it, and waits until it is served.
func plant(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	object = object.DeepCopy()
	object.SetUID(uuid.NewUUID())
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.Now())
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	kind, namespace, name := object.GetKind(), object.GetNamespace(), object.GetName()
	if _, err := env.etcd.Put(t.Context(), keyOf(kind, namespace, name), string(data)); err != nil {
		t.Fatal(err)
	}
	// Version 0 is answered from the watch cache, which is behind etcd by a moment.
	eventually(t, "the planted object is served", func(ctx context.Context) (bool, error) {
		var served metav1.PartialObjectMetadata
		data, err := requestTo("GET", kind, namespace).Name(name).Param("resourceVersion", "0").DoRaw(ctx)
		if err == nil {
			err = json.Unmarshal(data, &served)
		}
		return err == nil && served.UID == object.GetUID(), nil
	})
}
