// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/install"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/apiserver/etcd"
	"inferencecache.io/inferencecache/pkg/registry/cachebackend"
	"inferencecache.io/inferencecache/pkg/registry/cachepolicy"
	"inferencecache.io/inferencecache/pkg/registry/cachetenant"
)

var resourceOf = map[string]string{
	"CacheBackend": "cachebackends",
	"CachePolicy":  "cachepolicies",
	"CacheTenant":  "cachetenants",
}

// environment is the storage of our kinds on a real etcd.
type environment struct {
	scheme    *runtime.Scheme
	codec     runtime.Codec
	endpoints []string
	client    *clientv3.Client

	prefix   string
	storages map[string]rest.StandardStorage
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	server, err := etcd.Start(t.Context(), etcd.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client, err := etcd.NewClient(etcd.ClientOptions{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return &environment{
		scheme:    scheme,
		codec:     serializer.NewCodecFactory(scheme).LegacyCodec(v1alpha1.APIVersion),
		endpoints: server.Endpoints(),
		client:    client,
	}
}

// withPrefix returns the same environment with stores of its own under another prefix.
func (e *environment) withPrefix(t *testing.T, name string) *environment {
	t.Helper()
	isolated := *e
	isolated.prefix = "/" + name
	isolated.storages = map[string]rest.StandardStorage{}
	backends, _, _, err := cachebackend.NewREST(e.scheme, &isolated, clock.RealClock{})
	isolated.add(t, "CacheBackend", backends, err)
	policies, _, err := cachepolicy.NewREST(e.scheme, &isolated)
	isolated.add(t, "CachePolicy", policies, err)
	tenants, _, err := cachetenant.NewREST(e.scheme, &isolated)
	isolated.add(t, "CacheTenant", tenants, err)
	return &isolated
}

func (e *environment) add(t *testing.T, kind string, storage rest.StandardStorage, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("making the storage of %s: %v", kind, err)
	}
	t.Cleanup(storage.Destroy)
	e.storages[kind] = storage
}

func (e *environment) storage(t *testing.T, kind string) rest.StandardStorage {
	t.Helper()
	storage, ok := e.storages[kind]
	if !ok {
		t.Fatalf("no storage of %s", kind)
	}
	return storage
}

// GetRESTOptions makes the environment a RESTOptionsGetter without watch caches.
func (e *environment) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := storagebackend.NewDefaultConfig(e.prefix, e.codec)
	config.Transport.ServerList = e.endpoints
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               generic.UndecoratedStorage,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          resource.Group + "/" + resource.Resource,
	}, nil
}

// decode reads a body leniently and applies the constant defaults.
func (e *environment) decode(t *testing.T, object *unstructured.Unstructured) runtime.Object {
	t.Helper()
	data, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := runtime.Decode(e.codec, data)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// asServed returns an object as a client would read it.
func (e *environment) asServed(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	data, err := runtime.Encode(e.codec, object)
	if err != nil {
		t.Fatal(err)
	}
	var served unstructured.Unstructured
	if err := served.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return served.Object
}
