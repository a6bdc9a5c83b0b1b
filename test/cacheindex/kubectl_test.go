// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/test/cluster"
)

// TestDiscovery asserts how the kind is announced: it can be read and nothing else.
func TestDiscovery(t *testing.T) {
	list, err := env.kube.Discovery().ServerResourcesForGroupVersion("inferencecache.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	var got []metav1.APIResource
	for _, resource := range list.APIResources {
		if resource.Kind == "CacheIndex" || strings.HasPrefix(resource.Name, "cacheindices") {
			resource.StorageVersionHash = ""
			got = append(got, resource)
		}
	}
	want := []metav1.APIResource{{
		Name: "cacheindices", SingularName: "cacheindex", Kind: "CacheIndex", Verbs: metav1.Verbs{"get", "list", "watch"},
		ShortNames: []string{"ci"}, Categories: []string{"inferencecache"},
	}}
	for i := range got {
		got[i].Group, got[i].Version = "", ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
}

// TestKubectl asserts what people see who look at the index.
func TestKubectl(t *testing.T) {
	working(t)
	oneReplica(t)
	payload, err := os.ReadFile(filepath.Join(cluster.Root(), "testdata", "snapshots", "06-two-tenants-same-replica-name.json"))
	if err != nil {
		t.Fatal(err)
	}
	env.server.SetSnapshotBytes(payload)
	// It comes within the pause between two calls, which wait does not need to know.
	kubectl(t, "wait", "ci/cluster-default", "--for=jsonpath={.status.prefixes.summary.total}=51", "--timeout=60s")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"wide":     {[]string{"get", "ci", "-o", "wide"}, `^NAME +PREFIXES +CHANGED +AGE\ncluster-default +51 +\d+m?s +\d+[dhy]\S*\n$`},
		"singular": {[]string{"get", "cacheindex", "cluster-default", "--no-headers"}, `^cluster-default +51 `},
		"category": {[]string{"get", "inferencecache", "-A"}, `(?m)^ *cacheindex.inferencecache.io/cluster-default +51 `},
		"field":    {[]string{"get", "cacheindices", "--field-selector=metadata.name=cluster-default", "-o", "name"}, `^cacheindex.inferencecache.io/cluster-default\n$`},
		"describe": {[]string{"describe", "ci"}, `(?s)Name: +cluster-default.*Observed Server: +http://127.0.0.1:\d+/snapshot\?replica=0\n.*Total: +51.*Hit Rate: +0.75\n.*Id: +vllm-0`},
		"explain":  {[]string{"explain", "ci.status"}, `(?s)KIND: +CacheIndex.*FIELDS:.*observedServer.*replicas`},
		"one":      {[]string{"explain", "ci.status.replicas.hitRate"}, `(?s)cache hit rate`},
		"no other": {[]string{"get", "ci", "-l", "a=b", "-o", "name"}, `^$`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kubectl(t, tt.args...); !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("kubectl %v prints\n%s\nwant %s", tt.args, got, tt.want)
			}
		})
	}
	if _, stderr, err := env.cluster.Kubectl(t.Context(), "get", "ci", "other"); err == nil || !strings.Contains(stderr, "NotFound") {
		t.Errorf("another name: %v %s", err, stderr)
	}
}

// TestJSON pins the form of the object to the byte, but for what moves.
func TestJSON(t *testing.T) {
	working(t)
	oneReplica(t)
	env.server.SetSnapshotBytes([]byte(`{"replicas":[{"replicaId":"r","tenant":"orchid","cacheMemoryBytes":5,"hitRate":0.3,"pressure":0,
		"lastUpdate":"2027-03-02T10:00:05.5Z","statsReported":true}],
		"tenants":[{"tenantId":"","indexEntries":0,"hitRate":0,"memoryUsed":777}],"totalPrefixes":0,"hotPrefixes":0}`))
	kubectl(t, "wait", "ci/cluster-default", "--for=jsonpath={.status.replicas[0].id}=r", "--timeout=60s")
	data, err := env.inference.InferencecacheV1alpha1().RESTClient().Get().Resource("cacheindices").Name(indexName).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Metadata struct{ ResourceVersion string }
		Status   struct{ LastUpdated string }
	}
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"CacheIndex","apiVersion":"inferencecache.io/v1alpha1","metadata":{"name":"cluster-default",` +
		`"uid":"7c0f3c1e-5d0a-4c59-9a8e-2f6b1f0c7d11","resourceVersion":"` + object.Metadata.ResourceVersion + `",` +
		`"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{},"status":{` +
		`"replicas":[{"id":"r","tenant":"orchid","cacheMemoryBytes":5,"hitRate":"0.3","pressure":"0","lastUpdate":"2027-03-02T10:00:05Z"}],` +
		`"tenants":[{"id":"","indexEntries":0,"memoryUsed":0}],"prefixes":{"summary":{"total":0,"hot":0}},` +
		`"observedServer":"` + snapshotURL(0) + `","lastUpdated":"` + object.Status.LastUpdated + `"}}`
	if got := strings.TrimSpace(string(data)); got != want || object.Status.LastUpdated == "" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
