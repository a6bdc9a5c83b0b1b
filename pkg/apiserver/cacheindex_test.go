// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"strings"
	"testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
)

func TestCacheServerOptions(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"": "",
		"http://inference-cache-server:8081/snapshot": "",
		"https://[::1]/snapshot":                      "",
		"inference-cache-server:8081/snapshot":        "must begin with http:// or https://",
		"ftp://host/snapshot":                         "must begin with http:// or https://",
		"http:///snapshot":                            "has no host",
		"http://user:secret@host/snapshot":            "must not hold a user or password",
		"http://host/%zz?secret":                      "cannot be parsed",
	} {
		options := CacheServerOptions{SnapshotURL: url}
		errs := options.validate()
		if (len(errs) > 0) != (want != "") {
			t.Errorf("%q: got %v", url, errs)
			continue
		}
		if want == "" {
			continue
		}
		if text := errs[0].Error(); !strings.Contains(text, want) || !strings.Contains(text, "--server-snapshot-url") || strings.Contains(text, "secret") {
			t.Errorf("%q: got %q, want %q", url, text, want)
		}
	}
}

// snapshotFunc is a cache server.
type snapshotFunc func() (*cacheserver.Snapshot, error)

func (f snapshotFunc) Snapshot(context.Context) (*cacheserver.Snapshot, error) { return f() }

// TestCacheIndex asserts where the index comes from: from what a test sets, and from nowhere
// when there is no cache server.
func TestCacheIndex(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, configure func(*Options)) (*v1alpha1.CacheIndex, string) {
		t.Helper()
		client := versioned.NewForConfigOrDie(startAlone(t, configure))
		result := client.InferencecacheV1alpha1().RESTClient().Get().Resource("cacheindices").Name("cluster-default").Do(t.Context())
		var index v1alpha1.CacheIndex
		if err := result.Into(&index); err != nil {
			t.Fatal(err)
		}
		var warnings []string
		for _, warning := range result.Warnings() {
			warnings = append(warnings, warning.Text)
		}
		return &index, strings.Join(warnings, "; ")
	}
	t.Run("given", func(t *testing.T) {
		t.Parallel()
		index, warning := read(t, func(o *Options) {
			o.CacheServer.Server = snapshotFunc(func() (*cacheserver.Snapshot, error) {
				return &cacheserver.Snapshot{TotalPrefixes: 3}, nil
			})
		})
		if index.Status.Prefixes == nil || index.Status.Prefixes.Summary.Total != 3 ||
			index.Status.ObservedServer != "http://inference-cache-server:8081/snapshot" || warning != "" {
			t.Errorf("got %+v, warning %q", index.Status, warning)
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		index, warning := read(t, func(o *Options) { o.CacheServer.SnapshotURL = "" })
		want := "the cache index has not been read yet: no cache server is configured (--server-snapshot-url)"
		if index.Status.Prefixes != nil || index.Status.ObservedServer != "" || warning != want {
			t.Errorf("got %+v, warning %q", index.Status, warning)
		}
	})
}
