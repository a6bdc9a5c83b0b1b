// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// request sends one request through kube-apiserver, and returns what comes back.
func request(t *testing.T, method, path, accept, contentType, body string) (code int, got string) {
	t.Helper()
	client, err := rest.HTTPClientFor(env.config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, env.cluster.Server+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	response, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, _, _ = strings.Cut(response.Header.Get("Content-Type"), ";")
	return response.StatusCode, got
}

// TestWrites asserts that nobody can write the kind, in any way, and that it has no subresources.
func TestWrites(t *testing.T) {
	working(t)
	const (
		named = indexPath + "/" + indexName
		body  = `{"apiVersion":"inferencecache.io/v1alpha1","kind":"CacheIndex","metadata":{"name":"cluster-default"}}`
		json  = "application/json"
	)
	for _, tt := range []struct {
		method, path, contentType, body string
		want                            int
	}{
		{http.MethodPost, indexPath, json, body, http.StatusMethodNotAllowed},
		{http.MethodPost, indexPath + "?dryRun=All", json, body, http.StatusMethodNotAllowed},
		{http.MethodDelete, indexPath, "", "", http.StatusMethodNotAllowed},
		{http.MethodPut, named, json, body, http.StatusMethodNotAllowed},
		{http.MethodPatch, named, "application/merge-patch+json", `{}`, http.StatusMethodNotAllowed},
		{http.MethodPatch, named, "application/json-patch+json", `[]`, http.StatusMethodNotAllowed},
		{http.MethodPatch, named + "?fieldManager=me", "application/apply-patch+yaml", body, http.StatusMethodNotAllowed},
		{http.MethodDelete, named, "", "", http.StatusMethodNotAllowed},
		{http.MethodPatch, indexPath + "/other", "application/merge-patch+json", `{}`, http.StatusMethodNotAllowed},
		{http.MethodGet, named + "/status", "", "", http.StatusNotFound},
		{http.MethodPut, named + "/status", json, body, http.StatusNotFound},
		{http.MethodPatch, named + "/status", "application/merge-patch+json", `{}`, http.StatusNotFound},
		{http.MethodGet, named + "/scale", "", "", http.StatusNotFound},
		{http.MethodGet, groupPath + "/namespaces/default/cacheindices", "", "", http.StatusNotFound},
		{http.MethodGet, indexPath + "/other", "", "", http.StatusNotFound},
	} {
		if code, contentType := request(t, tt.method, tt.path, json, tt.contentType, tt.body); code != tt.want || contentType != json && code == http.StatusMethodNotAllowed {
			t.Errorf("%s %s: got %d %s, want %d", tt.method, tt.path, code, contentType, tt.want)
		}
	}

	for _, args := range [][]string{
		{"create", "-f", "-"}, {"replace", "-f", "-"}, {"apply", "-f", "-"}, {"apply", "--server-side", "-f", "-"}, {"delete", "-f", "-"},
		{"delete", "ci", indexName}, {"delete", "ci", "--all"}, {"label", "ci", indexName, "a=b"}, {"annotate", "ci", indexName, "a=b"},
		{"patch", "ci", indexName, "--type=merge", "-p", `{"status":{"observedServer":"x"}}`},
	} {
		var stdin string
		if args[len(args)-1] == "-" {
			stdin = body
		}
		_, stderr, err := env.cluster.KubectlInput(t.Context(), strings.NewReader(stdin), args...)
		if err == nil || !strings.Contains(stderr, "does not allow this method") {
			t.Errorf("kubectl %v: got %v %s", args, err, stderr)
		}
	}
}

// TestMediaTypes asserts in which form an answer comes: JSON whenever that will do, and never an internal error.
func TestMediaTypes(t *testing.T) {
	working(t)
	const (
		json, yaml = "application/json", "application/yaml"
		protobuf   = "application/vnd.kubernetes.protobuf"
		named      = indexPath + "/" + indexName
		partial    = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		partials   = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		table      = ";as=Table;g=meta.k8s.io;v=v1"
		aSecond    = "?watch=true&timeoutSeconds=1"
	)
	for _, tt := range []struct {
		path, accept string
		code         int
		contentType  string
	}{
		{indexPath, json, http.StatusOK, json},
		{named, yaml, http.StatusOK, yaml},
		{indexPath, protobuf + "," + json, http.StatusOK, json},
		{named, protobuf + "," + json, http.StatusOK, json},
		{named, protobuf, http.StatusNotAcceptable, protobuf},
		{indexPath, protobuf + partials + "," + json + partials, http.StatusOK, json},
		{named, protobuf + partial + "," + json + partial, http.StatusOK, json},
		{named, json + table, http.StatusOK, json},
		{indexPath + aSecond, json, http.StatusOK, json},
		{indexPath + aSecond, json + table, http.StatusOK, json},
		{indexPath + aSecond, json + partial, http.StatusOK, json},
		{named + aSecond, json, http.StatusOK, json},
		{indexPath + aSecond, protobuf + ";stream=watch", http.StatusNotAcceptable, protobuf},
		{indexPath, "application/cbor", http.StatusNotAcceptable, json},
		{indexPath + "?resourceVersion=x", json, http.StatusBadRequest, json},
		{indexPath + "?resourceVersion=1&resourceVersionMatch=Exact", json, http.StatusGone, json},
		{indexPath + "?resourceVersion=18446744073709551615", json, http.StatusGatewayTimeout, json},
		{indexPath + aSecond + "&resourceVersion=18446744073709551615", json, http.StatusGone, json},
		{indexPath + aSecond + "&resourceVersion=x", json, http.StatusBadRequest, json},
		{indexPath + "?fieldSelector=spec.x%3Dy", json, http.StatusBadRequest, json},
		{indexPath + "?limit=1", json, http.StatusOK, json},
	} {
		if code, contentType := request(t, http.MethodGet, tt.path, tt.accept, "", ""); code != tt.code || contentType != tt.contentType {
			t.Errorf("GET %s as %s: got %d %s, want %d %s", tt.path, tt.accept, code, contentType, tt.code, tt.contentType)
		}
	}
}

// TestMetadata asserts that programs which care for metadata alone are served too.
func TestMetadata(t *testing.T) {
	working(t)
	oneReplica(t)
	all, err := metadata.NewForConfig(env.config)
	if err != nil {
		t.Fatal(err)
	}
	client := all.Resource(v1alpha1.APIVersion.WithResource("cacheindices"))
	got, err := client.Get(t.Context(), indexName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != got.UID {
		t.Fatalf("list: got %+v, %v", list, err)
	}
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	next := total(getIndex(t)) + 1
	var kinds []watch.EventType
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			t.Fatalf("got %s %+v", event.Type, event.Object)
		}
		if object.Annotations[metav1.InitialEventsAnnotationKey] == "" && object.UID != got.UID {
			t.Errorf("got %+v", object)
		}
		kinds = append(kinds, event.Type)
		if len(kinds) == 2 {
			say(next)
		}
		if len(kinds) == 3 {
			break
		}
	}
	if !slices.Equal(kinds, []watch.EventType{watch.Added, watch.Bookmark, watch.Modified}) {
		t.Errorf("got %v", kinds)
	}
}
