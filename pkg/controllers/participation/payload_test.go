// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

const (
	payloads = "../../../testdata/snapshots"
	emptied  = "01-empty-null-arrays"
	oneEvent = "03-one-vllm-replica-with-stats"
)

// serve answers with the content of a file, as the cache server does.
func serve(t *testing.T, name string) Index {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		http.ServeFile(w, request, payloads+"/"+name+".json")
	}))
	t.Cleanup(server.Close)
	client, err := cacheserver.New(cacheserver.Target{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func read(t *testing.T, name string) *cacheserver.Snapshot {
	t.Helper()
	snapshot, err := serve(t, name).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func event(text string) *metav1.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return new(metav1.NewTime(at))
}

// TestPayloads: one backend owns all engines of its namespace, and each replica has its pod.
func TestPayloads(t *testing.T) {
	t.Parallel()
	type published map[string]*v1alpha1.IndexParticipation
	for name, want := range map[string]published{
		emptied:           {},
		"02-empty-arrays": {},
		oneEvent: {"orchid": {
			PrefixCount: 412, LastEventAt: event("2027-03-02T09:15:28Z"), T2HitRate: new("0.6"),
		}},
		"04-prefix-only-replica": {"orchid": {PrefixCount: 57, LastEventAt: event("2027-03-02T09:16:02Z")}},
		"05-stats-only-replica":  {"maple": {}},
		"06-two-tenants-same-replica-name": {
			"maple":  {PrefixCount: 30, LastEventAt: event("2027-03-02T10:00:01Z")},
			"orchid": {PrefixCount: 30, LastEventAt: event("2027-03-02T10:00:06Z")},
		},
		"07-t2-exercised-zero": {"orchid": {PrefixCount: 96, LastEventAt: event("2027-03-02T11:29:58Z"), T2HitRate: new("0")}},
		"08-t2-query-weighted": {"orchid": {PrefixCount: 112, LastEventAt: event("2027-03-02T11:30:59Z"), T2HitRate: new("0.375")}},
		"09-old-server-without-presence-bits": {
			"maple":  {PrefixCount: 2, LastEventAt: event("2026-12-24T17:59:00Z")},
			"orchid": {PrefixCount: 19, LastEventAt: event("2026-12-24T17:59:30Z")},
		},
		"10-untenanted-bucket":                   {"orchid": {PrefixCount: 6, LastEventAt: event("2027-03-02T11:58:30Z")}},
		"11-sglang-shared-prefixes-offset-times": {"maple": {PrefixCount: 256, LastEventAt: event("2027-03-02T12:05:00Z")}},
		"12-newer-server-unknown-keys":           {"orchid": {PrefixCount: 3, LastEventAt: event("2027-06-01T07:59:59Z")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := published{}
			for namespace, shares := range project(read(t, name)) {
				got[namespace] = shares.participation(nil)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("participation by namespace (-want +got):\n%s", diff)
			}
		})
	}
}

// project attributes a snapshot in which every replica with a namespace has its pod.
func project(snapshot *cacheserver.Snapshot) map[string]*share {
	pods := podsByNamespace{}
	var backends []v1alpha1.CacheBackend
	for _, replica := range snapshot.Replicas {
		if replica.Tenant == "" {
			continue
		}
		if pods[replica.Tenant] == nil {
			pods[replica.Tenant] = map[string]enginePod{}
			backends = append(backends, newBackend(replica.Tenant, "cache", atlas))
		}
		pods[replica.Tenant][replica.ID] = enginePod{labels: atlas}
	}
	byNamespace := map[string]*share{}
	for key, share := range attribute(snapshot.Replicas, backends, pods) {
		byNamespace[key.Namespace] = share
	}
	return byNamespace
}
