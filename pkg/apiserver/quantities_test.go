// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	restclient "k8s.io/client-go/rest"
)

// TestHugeQuantities sends numbers whose decoding would take minutes. Elsewhere than in a
// quantity such a text is somebody's label.
func TestHugeQuantities(t *testing.T) {
	t.Parallel()
	config := startAlone(t)
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	const (
		collection = "/apis/inferencecache.io/v1alpha1/namespaces/test/cachebackends"
		huge       = "12345678901234567890123e200000001"
	)
	object := func(spec, labels string) string {
		return `{"apiVersion":"inferencecache.io/v1alpha1","kind":"CacheBackend","metadata":{"name":"a","labels":{` + labels + `}},` +
			`"spec":{"runtime":"VLLM"` + spec + `}}`
	}
	for _, tt := range []struct {
		name, method, path, contentType, body string
		want                                  int
	}{
		{"capacity", http.MethodPost, collection, "application/json", object(`,"lmCache":{"hostMemory":{"capacity":"`+huge+`"}}`, ""), 400},
		{"number", http.MethodPost, collection, "application/json", object(`,"lmCache":{"hostMemory":{"capacity":`+huge+`}}`, ""), 400},
		{"limits", http.MethodPost, collection, "application/json", object(`,"remoteStorage":{"provider":"LMCacheServer","ownership":"Managed","lmCacheServer":{"resources":{"limits":{"cpu":"`+huge+`"}}}}`, ""), 400},
		{"yaml", http.MethodPost, collection, "application/yaml", "apiVersion: inferencecache.io/v1alpha1\nkind: CacheBackend\nmetadata: {name: a}\nspec: {runtime: VLLM, lmCache: {hostMemory: {capacity: \"" + huge + "\"}}}\n", 400},
		{"apply", http.MethodPatch, collection + "/a?fieldManager=m", "application/apply-patch+yaml", "apiVersion: inferencecache.io/v1alpha1\nkind: CacheBackend\nspec: {runtime: VLLM, lmCache: {hostMemory: {capacity: \"" + huge + "\"}}}\n", 400},
		{"label", http.MethodPost, collection, "application/json", object("", `"commit":"1e23456789"`), 201},
		{"merge patch", http.MethodPatch, collection + "/a", "application/merge-patch+json", `{"spec":{"lmCache":{"hostMemory":{"capacity":"` + huge + `"}}}}`, 400},
		{"json patch", http.MethodPatch, collection + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec/lmCache","value":{"hostMemory":{"capacity":"` + huge + `"}}}]`, 400},
		{"json patch of one value", http.MethodPatch, collection + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec/lmCache/hostMemory/capacity","value":"` + huge + `"}]`, 400},
		{"body above the limit", http.MethodPost, collection, "application/json", object("", `"a":"`+strings.Repeat("a", maxRequestBodyBytes)+`"`), 413},
		{"ordinary quantity", http.MethodPatch, collection + "/a", "application/merge-patch+json", `{"spec":{"lmCache":{"hostMemory":{"capacity":"1e10"}}}}`, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tt.method, config.Host+tt.path, bytes.NewReader([]byte(tt.body)))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", tt.contentType)
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tt.want {
				t.Errorf("got %d, want %d", response.StatusCode, tt.want)
			}
		})
	}
}
