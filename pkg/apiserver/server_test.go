// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	restclient "k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
)

// startAlone runs a server with an embedded etcd and no cluster around it, and returns
// how to reach it. It is stopped when the test ends.
func startAlone(t *testing.T, configure ...func(*Options)) *restclient.Config {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	webhookListener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := NewOptions()
	options.Webhook.Listener = webhookListener
	options.RunAlone()
	options.DataDir = t.TempDir()
	options.Recommended.SecureServing.Listener = listener
	options.Recommended.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	options.Recommended.SecureServing.ServerCert.CertDirectory = t.TempDir()
	for _, configure := range configure {
		configure(options)
	}
	if err := options.Validate(); err != nil {
		t.Fatal(err)
	}
	server, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	config := server.generic.LoopbackClientConfig
	waitReady(t, config)
	return config
}

func waitReady(t *testing.T, config *restclient.Config) {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
	if err != nil {
		t.Fatalf("the server did not get ready: %v", err)
	}
}

func backend(namespace, name string) *v1alpha1.CacheBackend {
	return &v1alpha1.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.CacheBackendSpec{Runtime: v1alpha1.RuntimeVLLM},
	}
}

// TestMediaTypes asserts what clients get for what they accept. Our types have no
// protobuf form, and nobody who asks for one may be answered with an internal error.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	config := startAlone(t)
	client := versioned.NewForConfigOrDie(config)
	if _, err := client.InferencecacheV1alpha1().CacheBackends("test").Create(t.Context(), backend("test", "one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	httpClient, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}

	const (
		proto    = "application/vnd.kubernetes.protobuf"
		metadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		list     = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	)
	collection := "/apis/inferencecache.io/v1alpha1/namespaces/test/cachebackends"
	for _, tt := range []struct {
		name, path, accept string
		wantCode           int
		wantType           string
	}{
		{"json", collection, "application/json", 200, "application/json"},
		{"yaml", collection, "application/yaml", 200, "application/yaml"},
		{"protobuf or json", collection, proto + ",application/json", 200, "application/json"},
		{"protobuf or json of one", collection + "/one", proto + ",application/json", 200, "application/json"},
		{"protobuf alone", collection, proto, 406, ""},
		{"protobuf alone of one", collection + "/one", proto, 406, ""},
		{"protobuf alone of nothing", collection + "/none", proto, 406, ""},
		{"protobuf watch", collection + "?watch=true&timeoutSeconds=1", proto + ";stream=watch", 406, ""},
		{"metadata in protobuf or json", collection + "/one", proto + metadata + ",application/json" + metadata, 200, "application/json"},
		{"metadata list in protobuf or json", collection, proto + list + ",application/json" + list, 200, "application/json"},
		{"metadata in protobuf", collection, proto + list, 406, ""},
		{"table", collection, "application/json;as=Table;g=meta.k8s.io;v=v1", 200, "application/json"},
		{"anything", collection, "*/*", 200, "application/json"},
		{"nonsense", collection, "image/png", 406, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Accept", tt.accept)
			response, err := httpClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
			if response.StatusCode != tt.wantCode || tt.wantType != "" && got != tt.wantType {
				t.Errorf("got %d %s, want %d %s", response.StatusCode, got, tt.wantCode, tt.wantType)
			}
		})
	}
}
