// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	fixture "inferencecache.io/inferencecache/test/cacheserver"
)

// largeSnapshot has as many replicas as tenants, 20 replicas to each tenant that has any.
func largeSnapshot(rows int) []byte {
	start := time.Date(2027, 3, 2, 9, 15, 30, 250_000_000, time.UTC)
	var snapshot fixture.Snapshot
	for i := range rows {
		when := start.Add(time.Duration(i) * time.Millisecond)
		snapshot.Replicas = append(snapshot.Replicas, fixture.Replica{
			ID: fmt.Sprintf("llama-serve-5b9c7d6f4-%05d", i), Tenant: fmt.Sprintf("tenant-%04d", i/20),
			CacheMemoryBytes: 17179869184, HitRate: 0.4375, Pressure: 0.0625, LastUpdate: when, PrefixCount: int64(i),
			LastEventAt: when, StatsReported: true, T2HitTokens: 30720, T2QueryTokens: 51200,
		})
		snapshot.Tenants = append(snapshot.Tenants, fixture.Tenant{
			ID: fmt.Sprintf("tenant-%04d", i), IndexEntries: int64(i), HitRate: 0.4375, HitRateReported: true,
		})
	}
	return snapshot.Encode()
}

// plainSnapshot is what encoding/json would be given.
type plainSnapshot struct {
	Replicas []struct {
		ID               string    `json:"replicaId"`
		Tenant           string    `json:"tenant"`
		CacheMemoryBytes int64     `json:"cacheMemoryBytes"`
		HitRate          float32   `json:"hitRate"`
		Pressure         float32   `json:"pressure"`
		LastUpdate       time.Time `json:"lastUpdate"`
		PrefixCount      int64     `json:"prefixCount"`
		LastEventAt      time.Time `json:"lastEventAt"`
		StatsReported    bool      `json:"statsReported"`
		T2HitTokens      int64     `json:"t2HitTokens"`
		T2QueryTokens    int64     `json:"t2QueryTokens"`
	} `json:"replicas"`
	Tenants []struct {
		ID              string  `json:"tenantId"`
		IndexEntries    int64   `json:"indexEntries"`
		HitRate         float32 `json:"hitRate"`
		HitRateReported bool    `json:"hitRateReported"`
	} `json:"tenants"`
}

func plainDecode(body io.Reader) error {
	return json.NewDecoder(body).Decode(&plainSnapshot{})
}

// BenchmarkDecodeSnapshot reads 1,000 replicas and 1,000 tenants. It reports the allocations of a row, and how long
// encoding/json would take as a ratio.
func BenchmarkDecodeSnapshot(b *testing.B) {
	const rows = 1000
	body := largeSnapshot(rows)
	decode := func() error {
		_, err := decodeSnapshot(bytes.NewReader(body))
		return err
	}
	plain := func() error { return plainDecode(bytes.NewReader(body)) }
	measure := func(decode func() error) {
		if err := decode(); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var theirs time.Duration
	for b.Loop() {
		measure(decode)
		// Taking turns, both meet the same load of the machine.
		b.StopTimer()
		start := time.Now()
		measure(plain)
		theirs += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(theirs)/float64(b.Elapsed()), "x-encoding/json")
	b.ReportMetric(testing.AllocsPerRun(1, func() { measure(decode) })/(2*rows), "allocs/row")
	b.ReportMetric(testing.AllocsPerRun(1, func() { measure(plain) })/(2*rows), "allocs/row-encoding/json")
}

// TestDecodeAllocations demands that a row costs no more than the memory of its name.
func TestDecodeAllocations(t *testing.T) {
	const rows = 1000
	body := largeSnapshot(rows)
	allocations := testing.AllocsPerRun(5, func() {
		if _, err := decodeSnapshot(bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	})
	if perRow := allocations / (2 * rows); perRow > 1.25 {
		t.Errorf("got %.1f allocations for a row", perRow)
	}
}
