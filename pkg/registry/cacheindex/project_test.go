// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// readFile lets the client read an answer of the cache server that is in a file.
func readFile(t *testing.T, name string) *cacheserver.Snapshot {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join("../../../testdata/snapshots", name+".json"))
	}))
	defer server.Close()
	client, err := cacheserver.New(cacheserver.Target{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// lines is what a status says, short enough for a table.
func lines(status inferencecache.CacheIndexStatus) []string {
	text := []string{fmt.Sprintf("%d/%d", status.Prefixes.Summary.Total, status.Prefixes.Summary.Hot)}
	rate := func(rate *string) string {
		if rate == nil {
			return "unset"
		}
		return *rate
	}
	for _, r := range status.Replicas {
		text = append(text, fmt.Sprintf("replica %s of %q: %d bytes, hit %s, pressure %s, %s",
			r.ID, r.Tenant, r.CacheMemoryBytes, rate(r.HitRate), r.Pressure, r.LastUpdate.UTC().Format(time.RFC3339Nano)))
	}
	for _, tenant := range status.Tenants {
		text = append(text, fmt.Sprintf("tenant %q: %d entries, hit %s, %d used", tenant.ID, *tenant.IndexEntries, rate(tenant.HitRate), tenant.MemoryUsed))
	}
	return text
}

// TestProjectPayloads asserts what is shown of real answers of cache servers, old and new.
func TestProjectPayloads(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"01-empty-null-arrays": {"0/0"},
		"02-empty-arrays":      {"0/0"},
		"03-one-vllm-replica-with-stats": {
			"412/0",
			`replica llama-serve-5b9c7d6f4-h8k2p of "orchid": 17179869184 bytes, hit 0.4375, pressure 0.0625, 2027-03-02T09:15:30.25Z`,
			`tenant "orchid": 412 entries, hit 0.4375, 0 used`,
		},
		"04-prefix-only-replica": {"57/0", `tenant "orchid": 57 entries, hit unset, 0 used`},
		"05-stats-only-replica": {
			"0/0",
			`replica qwen-edge-0 of "maple": 0 bytes, hit 0, pressure 0.5, 2027-03-02T09:17:11Z`,
			`tenant "maple": 0 entries, hit 0, 0 used`,
		},
		"06-two-tenants-same-replica-name": {
			"51/0",
			`replica vllm-0 of "orchid": 6442450944 bytes, hit 0.75, pressure 0.375, 2027-03-02T10:00:07Z`,
			`tenant "maple": 30 entries, hit 0.25, 0 used`,
			`tenant "orchid": 21 entries, hit 0.75, 0 used`,
		},
		"07-t2-exercised-zero": {
			"96/0",
			`replica mixtral-kv-7f8f6c9d5b-2xw9s of "orchid": 0 bytes, hit 0.5, pressure 0.25, 2027-03-02T11:30:00Z`,
			`tenant "orchid": 96 entries, hit 0.5, 0 used`,
		},
		"08-t2-query-weighted": {
			"80/0",
			`replica mixtral-kv-7f8f6c9d5b-4tq7c of "orchid": 0 bytes, hit 0.5, pressure 0, 2027-03-02T11:31:00Z`,
			`replica mixtral-kv-7f8f6c9d5b-9bn3d of "orchid": 0 bytes, hit 0.25, pressure 0, 2027-03-02T11:31:02Z`,
			`replica mixtral-kv-7f8f6c9d5b-v5m8r of "orchid": 0 bytes, hit 0, pressure 0, 2027-03-02T11:31:03Z`,
			`tenant "orchid": 80 entries, hit 0.25, 0 used`,
		},
		"09-old-server-without-presence-bits": {
			"21/0",
			`replica legacy-batch-0 of "maple": 4294967296 bytes, hit 0, pressure 0, 2026-12-24T17:59:59Z`,
			`replica legacy-engine-0 of "orchid": 4294967296 bytes, hit 0.125, pressure 0, 2026-12-24T18:00:00Z`,
			`replica legacy-engine-2 of "orchid": 0 bytes, hit 0, pressure 0, 2026-12-24T18:00:01Z`,
			`tenant "maple": 2 entries, hit unset, 0 used`,
			`tenant "orchid": 19 entries, hit 0.0625, 0 used`,
		},
		"10-untenanted-bucket": {
			"15/0",
			`replica bare-engine of "": 1073741824 bytes, hit 0.3, pressure 0.05, 2027-03-02T12:00:00Z`,
			`tenant "": 9 entries, hit 0.3, 0 used`,
			`tenant "orchid": 6 entries, hit unset, 0 used`,
		},
		"11-sglang-shared-prefixes-offset-times": {
			"160/0",
			`replica sgl-hicache-0 of "maple": 0 bytes, hit 0, pressure 0, 2027-03-02T12:05:00.123456Z`,
			`replica sgl-hicache-1 of "maple": 0 bytes, hit 0, pressure 0, 2027-03-02T12:05:01Z`,
			`tenant "maple": 160 entries, hit 0, 0 used`,
		},
		"12-newer-server-unknown-keys": {
			"3/1",
			`replica llama-serve-5b9c7d6f4-h8k2p of "orchid": 1048576 bytes, hit 0.6, pressure 0.1, 2027-06-01T08:00:00Z`,
			`tenant "orchid": 3 entries, hit 0.6, 0 used`,
		},
	}
	files, err := filepath.Glob("../../../testdata/snapshots/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("there are %d payloads (%v), want %d", len(files), err, len(want))
	}
	for name, want := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := project(readFile(t, name), serverURL)
			if diff := cmp.Diff(want, lines(status)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if status.ObservedServer != serverURL || !status.LastUpdated.IsZero() {
				t.Errorf("observed %q at %s", status.ObservedServer, status.LastUpdated)
			}
		})
	}
}

// TestProjectReplicas asserts which of several rows with one name is shown, in any order.
func TestProjectReplicas(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	row := func(id, tenant string, memory int64) cacheserver.Replica {
		return cacheserver.Replica{ID: id, Tenant: tenant, CacheMemoryBytes: memory, LastUpdate: at}
	}
	silent := cacheserver.Replica{ID: "b", Tenant: "z", StatsReported: true}
	for _, tt := range []struct {
		name string
		rows []cacheserver.Replica
		want []string
	}{
		{"none", nil, nil},
		{"sorted by id", []cacheserver.Replica{row("b", "x", 1), row("a", "y", 2), row("B", "z", 3)}, []string{"B/z/3", "a/y/2", "b/x/1"}},
		{"greatest tenant comes last", []cacheserver.Replica{row("a", "x", 1), row("a", "y", 2)}, []string{"a/y/2"}},
		{"greatest tenant comes first", []cacheserver.Replica{row("a", "y", 2), row("a", "x", 1), row("a", "", 3)}, []string{"a/y/2"}},
		{"same tenant", []cacheserver.Replica{row("a", "x", 1), row("a", "x", 2)}, []string{"a/x/1"}},
		{"without statistics", []cacheserver.Replica{silent, row("b", "a", 1)}, []string{"b/a/1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, replica := range projectReplicas(tt.rows) {
				got = append(got, fmt.Sprintf("%s/%s/%d", replica.ID, replica.Tenant, replica.CacheMemoryBytes))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRates asserts that a rate is the shortest decimal of its single precision.
func TestRates(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float32]string{
		0: "0", 1: "1", 0.3: "0.3", 1.0 / 3: "0.33333334", 2.0 / 3: "0.6666667", 1e-9: "0.000000001",
		math.SmallestNonzeroFloat32: "0.000000000000000000000000000000000000000000001",
	} {
		replicas := projectReplicas([]cacheserver.Replica{{ID: "a", HitRate: rate, Pressure: rate, LastUpdate: time.Unix(1, 0)}})
		if got := replicas[0]; *got.HitRate != want || got.Pressure != want {
			t.Errorf("%g is shown as %s and %s, want %s", rate, *got.HitRate, got.Pressure, want)
		}
	}
}

// TestSameButForTimes asserts what counts as a change.
func TestSameButForTimes(t *testing.T) {
	t.Parallel()
	base := func() inferencecache.CacheIndexStatus {
		return project(&cacheserver.Snapshot{
			Replicas:      []cacheserver.Replica{{ID: "a", Tenant: "x", HitRate: 0.5, LastUpdate: time.Unix(1, 0)}},
			Tenants:       []cacheserver.Tenant{{ID: "x", IndexEntries: 1, HitRate: 0.5}},
			TotalPrefixes: 1,
		}, serverURL)
	}
	for _, tt := range []struct {
		name   string
		change func(*inferencecache.CacheIndexStatus)
		same   bool
	}{
		{"nothing", func(*inferencecache.CacheIndexStatus) {}, true},
		{"last update of a replica", func(s *inferencecache.CacheIndexStatus) { s.Replicas[0].LastUpdate = metav1.Unix(2, 0) }, true},
		{"last change", func(s *inferencecache.CacheIndexStatus) { s.LastUpdated = metav1.Unix(2, 0) }, true},
		{"id", func(s *inferencecache.CacheIndexStatus) { s.Replicas[0].ID = "b" }, false},
		{"tenant of a replica", func(s *inferencecache.CacheIndexStatus) { s.Replicas[0].Tenant = "y" }, false},
		{"memory", func(s *inferencecache.CacheIndexStatus) { s.Replicas[0].CacheMemoryBytes = 1 }, false},
		{"hit rate", func(s *inferencecache.CacheIndexStatus) { s.Replicas[0].HitRate = new("0.6") }, false},
		{"hit rate not reported", func(s *inferencecache.CacheIndexStatus) { s.Replicas[0].HitRate = nil }, false},
		{"pressure", func(s *inferencecache.CacheIndexStatus) { s.Replicas[0].Pressure = "0.1" }, false},
		{"no replica", func(s *inferencecache.CacheIndexStatus) { s.Replicas = nil }, false},
		{"entries", func(s *inferencecache.CacheIndexStatus) { s.Tenants[0].IndexEntries = new(int64(2)) }, false},
		{"no tenant", func(s *inferencecache.CacheIndexStatus) { s.Tenants = nil }, false},
		{"total", func(s *inferencecache.CacheIndexStatus) { s.Prefixes.Summary.Total = 2 }, false},
		{"hot", func(s *inferencecache.CacheIndexStatus) { s.Prefixes.Summary.Hot = 2 }, false},
		{"nothing read", func(s *inferencecache.CacheIndexStatus) { s.Prefixes = nil }, false},
		{"server", func(s *inferencecache.CacheIndexStatus) { s.ObservedServer = "other" }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := base(), base()
			tt.change(&b)
			if got := sameButForTimes(a, b); got != tt.same {
				t.Errorf("got %t, want %t", got, tt.same)
			}
			if !a.Replicas[0].LastUpdate.Equal(new(metav1.Unix(1, 0))) {
				t.Error("the comparison has changed a status")
			}
		})
	}
}
