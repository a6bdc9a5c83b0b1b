// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	cborType     = "application/cbor"
	partial      = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialList  = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	table        = ";as=Table;g=meta.k8s.io;v=v1"
)

// TestMediaTypes checks in which form an answer comes, through kube-apiserver as every client asks: JSON whenever that will
// do, and never an internal error.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, hostOnly("a"))
	client, err := rest.HTTPClientFor(env.config)
	if err != nil {
		t.Fatal(err)
	}
	collection := env.cluster.Server + groupPath + "/namespaces/" + namespace + "/cachebackends"
	for _, test := range []struct {
		url, accept string
		code        int
		contentType string
	}{
		{collection, "", http.StatusOK, jsonType},
		{collection, "*/*", http.StatusOK, jsonType},
		{collection, jsonType, http.StatusOK, jsonType},
		{collection, "application/yaml", http.StatusOK, "application/yaml"},
		{collection, protobufType + "," + jsonType, http.StatusOK, jsonType},
		{collection + "/a", protobufType + "," + jsonType, http.StatusOK, jsonType},
		{collection + "/a/status", protobufType + "," + jsonType, http.StatusOK, jsonType},
		// An error has a protobuf form.
		{collection, protobufType, http.StatusNotAcceptable, protobufType},
		{collection + "/a", protobufType, http.StatusNotAcceptable, protobufType},
		{collection, protobufType + partialList + "," + jsonType + partialList + "," + jsonType, http.StatusOK, jsonType},
		{collection + "/a", protobufType + partial + "," + jsonType + partial + "," + jsonType, http.StatusOK, jsonType},
		{collection, jsonType + table + "," + jsonType, http.StatusOK, jsonType},
		{collection, cborType, http.StatusNotAcceptable, jsonType},
		{collection, cborType + "," + jsonType, http.StatusOK, jsonType},
		{collection, "text/html", http.StatusNotAcceptable, jsonType},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.accept != "" {
			request.Header.Set("Accept", test.accept)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		contentType, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
		if response.StatusCode != test.code || contentType != test.contentType {
			t.Errorf("GET %s, accepting %q: got %d %s, want %d %s", test.url, test.accept, response.StatusCode, contentType, test.code, test.contentType)
		}
	}
}

// TestBodyMediaTypes checks in which form an object may be sent.
func TestBodyMediaTypes(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for contentType, want := range map[string]int{
		jsonType:             http.StatusCreated,
		"application/yaml":   http.StatusCreated, // JSON is YAML.
		protobufType:         http.StatusUnsupportedMediaType,
		cborType:             http.StatusUnsupportedMediaType,
		"application/xml":    http.StatusUnsupportedMediaType,
		"application/x-yaml": http.StatusUnsupportedMediaType,
	} {
		object := minimal("CacheBackend")
		object.SetName(strings.ReplaceAll(strings.TrimPrefix(contentType, "application/"), "/", "-"))
		request := requestTo("POST", "CacheBackend", namespace).SetHeader("Content-Type", contentType)
		if got := send(t, request, object.Object); got.code != want {
			t.Errorf("%s: got %d, want %d: %v", contentType, got.code, want, got.err)
		}
	}
}

// TestProtobufClients checks clients that would rather have protobuf, as Kubernetes' own: they get what they need.
func TestProtobufClients(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, hostOnly("a"))

	config := rest.CopyConfig(env.config)
	config.AcceptContentTypes = protobufType + "," + jsonType
	typed, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if backend, err := typed.InferencecacheV1alpha1().CacheBackends(namespace).Get(t.Context(), "a", metav1.GetOptions{}); err != nil || backend.Name != "a" {
		t.Errorf("get: %v, %v", backend, err)
	}

	// The garbage collector's client.
	metadataOnly, err := metadata.NewForConfig(env.config)
	if err != nil {
		t.Fatal(err)
	}
	client := metadataOnly.Resource(resources["CacheBackend"]).Namespace(namespace)
	found, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(found.Items) != 1 || found.Items[0].UID == "" {
		t.Fatalf("list of metadata: %v, %v", found, err)
	}
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: found.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	event := next(t, watcher)
	if object, ok := event.Object.(*metav1.PartialObjectMetadata); !ok || event.Type != watch.Modified || object.Labels["a"] != "b" {
		t.Errorf("watch of metadata: got %s %+v", event.Type, event.Object)
	}
	if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
