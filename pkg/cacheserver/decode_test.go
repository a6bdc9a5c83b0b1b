// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

const payloads = "../../testdata/snapshots"

func readPayload(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(payloads, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestPayloads(t *testing.T) {
	t.Parallel()
	tests := map[string]*Snapshot{
		"01-empty-null-arrays": {},
		"02-empty-arrays":      {},
		"03-one-vllm-replica-with-stats": {
			Replicas: []Replica{{
				ID: "llama-serve-5b9c7d6f4-h8k2p", Tenant: "orchid", CacheMemoryBytes: 17179869184, HitRate: 0.4375, Pressure: 0.0625,
				LastUpdate: at(t, "2027-03-02T09:15:30.25Z"), PrefixCount: 412, LastEventAt: at(t, "2027-03-02T09:15:28.75Z"),
				StatsReported: true, T2HitTokens: 30720, T2QueryTokens: 51200,
			}},
			Tenants:       []Tenant{{ID: "orchid", IndexEntries: 412, HitRate: 0.4375, HitRateReported: true}},
			TotalPrefixes: 412,
		},
		"04-prefix-only-replica": {
			Replicas: []Replica{{
				ID: "llama-serve-5b9c7d6f4-q7z4n", Tenant: "orchid", PrefixCount: 57, LastEventAt: at(t, "2027-03-02T09:16:02.5Z"),
			}},
			Tenants:       []Tenant{{ID: "orchid", IndexEntries: 57}},
			TotalPrefixes: 57,
		},
		"05-stats-only-replica": {
			Replicas: []Replica{{
				ID: "qwen-edge-0", Tenant: "maple", Pressure: 0.5, LastUpdate: at(t, "2027-03-02T09:17:11Z"), StatsReported: true,
			}},
			Tenants: []Tenant{{ID: "maple", HitRateReported: true}},
		},
		"09-old-server-without-presence-bits": {
			Replicas: []Replica{
				{
					ID: "legacy-batch-0", Tenant: "maple", CacheMemoryBytes: 4294967296, LastUpdate: at(t, "2026-12-24T17:59:59Z"),
					PrefixCount: 2, LastEventAt: at(t, "2026-12-24T17:59:00Z"),
				},
				{
					ID: "legacy-engine-0", Tenant: "orchid", CacheMemoryBytes: 4294967296, HitRate: 0.125,
					LastUpdate: at(t, "2026-12-24T18:00:00Z"), PrefixCount: 15, LastEventAt: at(t, "2026-12-24T17:59:30Z"),
				},
				{ID: "legacy-engine-1", Tenant: "orchid", PrefixCount: 4, LastEventAt: at(t, "2026-12-24T17:58:00Z")},
				{ID: "legacy-engine-2", Tenant: "orchid", LastUpdate: at(t, "2026-12-24T18:00:01Z")},
			},
			Tenants:       []Tenant{{ID: "maple", IndexEntries: 2}, {ID: "orchid", IndexEntries: 19, HitRate: 0.0625}},
			TotalPrefixes: 21,
		},
		"10-untenanted-bucket": {
			Replicas: []Replica{
				{
					ID: "bare-engine", CacheMemoryBytes: 1073741824, HitRate: 0.3, Pressure: 0.05,
					LastUpdate: at(t, "2027-03-02T12:00:00Z"), PrefixCount: 9, LastEventAt: at(t, "2027-03-02T11:59:59Z"), StatsReported: true,
				},
				{ID: "llama-serve-5b9c7d6f4-h8k2p", Tenant: "orchid", PrefixCount: 6, LastEventAt: at(t, "2027-03-02T11:58:30Z")},
			},
			Tenants:       []Tenant{{IndexEntries: 9, HitRate: 0.3, HitRateReported: true}, {ID: "orchid", IndexEntries: 6}},
			TotalPrefixes: 15,
		},
		"11-sglang-shared-prefixes-offset-times": {
			Replicas: []Replica{
				{
					ID: "sgl-hicache-0", Tenant: "maple", LastUpdate: at(t, "2027-03-02T12:05:00.123456Z"), PrefixCount: 128,
					LastEventAt: at(t, "2027-03-02T12:04:59.999999Z"), StatsReported: true,
				},
				{
					ID: "sgl-hicache-1", Tenant: "maple", LastUpdate: at(t, "2027-03-02T12:05:01Z"), PrefixCount: 128,
					LastEventAt: at(t, "2027-03-02T12:05:00.5Z"), StatsReported: true,
				},
			},
			Tenants:       []Tenant{{ID: "maple", IndexEntries: 160, HitRateReported: true}},
			TotalPrefixes: 160,
		},
		"12-newer-server-unknown-keys": {
			Replicas: []Replica{{
				ID: "llama-serve-5b9c7d6f4-h8k2p", Tenant: "orchid", CacheMemoryBytes: 1048576, HitRate: 0.6, Pressure: 0.1,
				LastUpdate: at(t, "2027-06-01T08:00:00Z"), PrefixCount: 3, LastEventAt: at(t, "2027-06-01T07:59:59Z"), StatsReported: true,
			}},
			Tenants:       []Tenant{{ID: "orchid", IndexEntries: 3, HitRate: 0.6, HitRateReported: true}},
			TotalPrefixes: 3,
			HotPrefixes:   1,
		},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The reader gives one byte at a time, as a network might.
			got, err := decodeSnapshot(iotest.OneByteReader(bytes.NewReader(readPayload(t, name))))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPayloadSums(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		replicas, reported, tenants int
		prefixes, hits, queries     int64
	}{
		"06-two-tenants-same-replica-name": {replicas: 3, reported: 2, tenants: 2, prefixes: 60},
		"07-t2-exercised-zero":             {replicas: 1, reported: 1, tenants: 1, prefixes: 96, queries: 8192},
		"08-t2-query-weighted":             {replicas: 3, reported: 3, tenants: 1, prefixes: 112, hits: 3000, queries: 8000},
		// Without the bit the time of the last statistics tells.
		"09-old-server-without-presence-bits": {replicas: 4, reported: 3, tenants: 2, prefixes: 21},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshot, err := decodeSnapshot(bytes.NewReader(readPayload(t, name)))
			if err != nil {
				t.Fatal(err)
			}
			got := want
			got.replicas, got.tenants = len(snapshot.Replicas), len(snapshot.Tenants)
			got.reported, got.prefixes, got.hits, got.queries = 0, 0, 0, 0
			for _, replica := range snapshot.Replicas {
				if replica.Reported() {
					got.reported++
				}
				got.prefixes += replica.PrefixCount
				got.hits += replica.T2HitTokens
				got.queries += replica.T2QueryTokens
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestTruncatedPayloads cuts every payload at every byte. Only the white space at the end may be missing.
func TestTruncatedPayloads(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(payloads, "*.json"))
	if err != nil || len(files) != 12 {
		t.Fatalf("got %d payloads, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := bytes.TrimSpace(readPayload(t, name))
			for end := range len(body) {
				snapshot, err := decodeSnapshot(bytes.NewReader(body[:end]))
				if !errors.Is(err, io.ErrUnexpectedEOF) || snapshot != nil {
					t.Fatalf("cut at %d: got %v and error %v", end, snapshot, err)
				}
			}
			if _, err := decodeSnapshot(bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":[`, 4000) + strings.Repeat(`]}`, 4000)
	tests := map[string]struct {
		body string
		want *Snapshot
	}{
		"empty object":        {`{}`, &Snapshot{}},
		"trailing whitespace": {"{} \r\n\t", &Snapshot{}},
		"keys in other case":  {`{"Replicas":[{}],"TOTALPREFIXES":5,"tenants":[{"TenantID":"x"}]}`, &Snapshot{Tenants: []Tenant{{}}}},
		"null scalars": {
			`{"totalPrefixes":null,"replicas":[{"replicaId":null,"tenant":null,"hitRate":null,"lastUpdate":null,"statsReported":null}]}`,
			&Snapshot{Replicas: []Replica{{}}},
		},
		"nothing carried over from row to row": {
			`{"replicas":[{"replicaId":"a","tenant":"x","hitRate":1,"statsReported":true,"t2QueryTokens":4,"lastUpdate":"2027-03-02T12:00:00Z"},
			{"replicaId":"b"},{"tenant":"x"}],"tenants":[{"tenantId":"x","hitRate":1,"hitRateReported":true},{}]}`,
			&Snapshot{
				Replicas: []Replica{
					{ID: "a", Tenant: "x", HitRate: 1, StatsReported: true, T2QueryTokens: 4, LastUpdate: at(t, "2027-03-02T12:00:00Z")},
					{ID: "b"}, {Tenant: "x"},
				},
				Tenants: []Tenant{{ID: "x", HitRate: 1, HitRateReported: true}, {}},
			},
		},
		"escapes": {`{"\u0074otalPrefixes":2,"replicas":[{"replicaId":"a\u002db","tenant":"\u00e9"}]}`, &Snapshot{
			Replicas: []Replica{{ID: "a-b", Tenant: "é"}}, TotalPrefixes: 2,
		}},
		"zero time elsewhere": {`{"replicas":[{"lastUpdate":"0001-01-01T02:00:00+02:00"}]}`, &Snapshot{Replicas: []Replica{{}}}},
		"escaped time":        {`{"replicas":[{"lastUpdate":"2027-03-02T14:00:00\u002b02:00"}]}`, &Snapshot{Replicas: []Replica{{LastUpdate: at(t, "2027-03-02T12:00:00Z")}}}},
		"the largest number":  {`{"totalPrefixes":9223372036854775807}`, &Snapshot{TotalPrefixes: 1<<63 - 1}},
		"unknown keys of every kind": {
			`{"a":{"b":[1,{"c":null}]},"d":"e","f":1e400,"a":true,"replicas":[{"x":[[]],"replicaId":"r"}],"tenants":[{"memoryUsed":"any"}]}`,
			&Snapshot{Replicas: []Replica{{ID: "r"}}, Tenants: []Tenant{{}}},
		},
		"deep unknown key":          {`{"a":` + deep + `}`, &Snapshot{}},
		"deep unknown key in a row": {`{"tenants":[{"a":` + deep + `}]}`, &Snapshot{Tenants: []Tenant{{}}}},
		"what probes leave behind": {
			`{"replicas":[{"replicaId":"__probe-1","tenant":"x"},{"replicaId":"r","tenant":"inferencecache.io/probe"},{"replicaId":"a__probe-"}],
			"tenants":[{"tenantId":"inferencecache.io/probe"},{"tenantId":"x"}]}`,
			&Snapshot{Replicas: []Replica{{ID: "a__probe-"}}, Tenants: []Tenant{{ID: "x"}}},
		},
		"negative numbers of an engine": {
			`{"replicas":[{"replicaId":"r","cacheMemoryBytes":-1,"t2HitTokens":-2,"t2QueryTokens":-3}]}`,
			&Snapshot{Replicas: []Replica{{ID: "r"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decodeSnapshot(strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 1<<16)
	tests := map[string]struct{ body, want string }{
		"nothing":                   {"", "unexpected EOF"},
		"HTML":                      {"<html>", "invalid character '<'"},
		"null":                      {"null", "not a JSON object"},
		"array":                     {"[]", "not a JSON object"},
		"string":                    {`"{}"`, "not a JSON object"},
		"second object":             {"{}{}", "something follows"},
		"text behind":               {"{} x", "invalid character 'x'"},
		"NUL behind":                {"{}\x00", "invalid character '\\x00'"},
		"comma at the end":          {`{"totalPrefixes":1,}`, "invalid character '}'"},
		"comma at the end of rows":  {`{"replicas":[{},]}`, "invalid character ']'"},
		"no comma":                  {`{"totalPrefixes":1 "hotPrefixes":1}`, "invalid character '\"'"},
		"no comma between rows":     {`{"replicas":[{} {}]}`, "expected comma"},
		"no colon":                  {`{"totalPrefixes" 1}`, "expected colon"},
		"brackets crossed":          {`{"replicas":[{}}`, "invalid character '}'"},
		"key twice":                 {`{"replicas":[],"replicas":[]}`, "replicas is there twice"},
		"count twice":               {`{"totalPrefixes":1,"totalPrefixes":1}`, "totalPrefixes is there twice"},
		"rows are an object":        {`{"replicas":{}}`, "replicas is not an array"},
		"rows are a string":         {`{"tenants":"none"}`, "tenants is not an array"},
		"row is null":               {`{"tenants":[{},null]}`, "tenants[1] is null"},
		"row is a string":           {`{"replicas":["` + long + `"]}`, "replicas[0]: a JSON string does not fit"},
		"row is an array":           {`{"replicas":[[]]}`, "replicas[0]: a JSON array does not fit"},
		"string for a number":       {`{"replicas":[{},{"prefixCount":"1"}]}`, "replicas[1]: prefixCount: a JSON string does not fit"},
		"number for a string":       {`{"replicas":[{"tenant":1}]}`, "replicas[0]: tenant: a JSON number does not fit"},
		"fraction for a count":      {`{"totalPrefixes":1.5}`, "totalPrefixes: a JSON number does not fit"},
		"count too large":           {`{"totalPrefixes":9223372036854775808}`, "totalPrefixes: a JSON number does not fit"},
		"number without end":        {`{"replicas":[{"prefixCount":` + long + `}]}`, "prefixCount: a JSON number does not fit"},
		"rate too large":            {`{"replicas":[{"hitRate":1e39}]}`, "hitRate: a JSON number does not fit"},
		"NaN":                       {`{"replicas":[{"hitRate":NaN}]}`, "invalid character 'N'"},
		"time without zone":         {`{"replicas":[{"lastUpdate":"2027-03-02T12:00:00"}]}`, "lastUpdate: a JSON string does not fit"},
		"time as a number":          {`{"replicas":[{"lastEventAt":1}]}`, "lastEventAt: a JSON number does not fit"},
		"time without end":          {`{"replicas":[{"lastUpdate":"` + long + `"}]}`, "lastUpdate: a JSON string does not fit"},
		"ignored key malformed":     {`{"tenants":[{"memoryUsed":01}]}`, "invalid character '1'"},
		"too deep":                  {`{"a":` + strings.Repeat("[", 1<<20), "exceeded max depth"},
		"negative total":            {`{"totalPrefixes":-1}`, "totalPrefixes is negative"},
		"negative hot":              {`{"hotPrefixes":-1}`, "hotPrefixes is negative"},
		"negative prefixes":         {`{"replicas":[{},{},{"prefixCount":-1}]}`, "replicas[2]: prefixCount is negative"},
		"negative entries":          {`{"tenants":[{"indexEntries":-1}]}`, "tenants[0]: indexEntries is negative"},
		"rows that say nothing":     {`{"tenants":[` + strings.Repeat("{},", maxRows) + `{}]}`, "more than 131072 rows"},
		"a value that is too large": {`{"later":"` + strings.Repeat("x", 4<<20) + `"}`, "larger than 1048576 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decodeSnapshot(strings.NewReader(test.body))
			if got != nil || err == nil {
				t.Fatalf("got %v and error %v", got, err)
			}
			if !strings.Contains(err.Error(), test.want) || len(err.Error()) > 200 {
				t.Errorf("got error %.300q, want a short one with %q", err, test.want)
			}
		})
	}
}

// TestDecodeGivesUTC is about what comparing instants does not show.
func TestDecodeGivesUTC(t *testing.T) {
	t.Parallel()
	snapshot, err := decodeSnapshot(bytes.NewReader(readPayload(t, "11-sglang-shared-prefixes-offset-times")))
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshot.Replicas[0].LastUpdate.Location(); got != time.UTC {
		t.Errorf("got %s", got)
	}
}

func TestDecodeSharesTenants(t *testing.T) {
	t.Parallel()
	snapshot, err := decodeSnapshot(strings.NewReader(`{"replicas":[{"tenant":"orchid"},{"tenant":"orchid"},{},{"tenant":"orchid"},{"tenant":"maple"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	first := unsafe.StringData(snapshot.Replicas[0].Tenant)
	for _, i := range []int{1, 3} {
		if unsafe.StringData(snapshot.Replicas[i].Tenant) != first {
			t.Errorf("row %d has memory of its own for the tenant", i)
		}
	}
	if got := snapshot.Replicas[4].Tenant; got != "maple" {
		t.Errorf("got tenant %q", got)
	}
}

// TestTimesThatCannotBeWritten: a clock that is far off must not make the whole index unreadable for those that it is shown
// to.
func TestTimesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00"} {
		got, err := decodeSnapshot(strings.NewReader(`{"replicas":[{"replicaId":"a","lastEventAt":"` + when + `"}]}`))
		if err != nil || !got.Replicas[0].LastEventAt.IsZero() {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
}
