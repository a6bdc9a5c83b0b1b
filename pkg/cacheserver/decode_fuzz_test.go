// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecodeSnapshot compares with a slow reading that has nothing in common with the fast one.
func FuzzDecodeSnapshot(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(payloads, "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no payloads: %v", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if repeatsKey(body) {
			return // The two may well take different values.
		}
		got, err := decodeSnapshot(bytes.NewReader(body))
		want, wantErr := slowDecode(body)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("got error %v, the slow reading %v", err, wantErr)
		}
		if err != nil {
			if got != nil || len(err.Error()) > 200 {
				t.Fatalf("got %v and error %v", got, err)
			}
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// repeatsKey says whether an object anywhere has a key twice.
func repeatsKey(body []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(body))
	type level struct {
		keys  map[string]bool // nil in an array
		value bool            // a value comes next, and no key
	}
	var levels []level
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			levels = levels[:len(levels)-1]
			continue
		}
		if len(levels) > 0 {
			if top := &levels[len(levels)-1]; top.keys != nil {
				if key, isString := token.(string); isString && !top.value {
					if top.keys[key] {
						return true
					}
					top.keys[key], top.value = true, true
					continue
				}
				top.value = false
			}
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{keys: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

// fields reads the values of an object and keeps the first error.
type fields struct {
	values map[string]any
	err    error
}

func slowDecode(body []byte) (*Snapshot, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	if rest := body[decoder.InputOffset():]; strings.Trim(string(rest), " \t\r\n") != "" {
		return nil, errors.New("something follows")
	}
	top := object(document)
	snapshot := &Snapshot{TotalPrefixes: top.count("totalPrefixes"), HotPrefixes: top.count("hotPrefixes")}
	for _, row := range top.rows("replicas") {
		r := object(row)
		replica := Replica{
			ID: r.text("replicaId"), Tenant: r.text("tenant"), CacheMemoryBytes: max(0, r.integer("cacheMemoryBytes")),
			HitRate: r.rate("hitRate"), Pressure: r.rate("pressure"), LastUpdate: r.time("lastUpdate"),
			PrefixCount: r.count("prefixCount"), LastEventAt: r.time("lastEventAt"), StatsReported: r.flag("statsReported"),
			T2HitTokens: max(0, r.integer("t2HitTokens")), T2QueryTokens: max(0, r.integer("t2QueryTokens")),
		}
		top.err = errors.Join(top.err, r.err)
		if replica.Tenant != "inferencecache.io/probe" && !strings.HasPrefix(replica.ID, "__probe-") {
			snapshot.Replicas = append(snapshot.Replicas, replica)
		}
	}
	for _, row := range top.rows("tenants") {
		r := object(row)
		tenant := Tenant{
			ID: r.text("tenantId"), IndexEntries: r.count("indexEntries"), HitRate: r.rate("hitRate"), HitRateReported: r.flag("hitRateReported"),
		}
		top.err = errors.Join(top.err, r.err)
		if tenant.ID != "inferencecache.io/probe" {
			snapshot.Tenants = append(snapshot.Tenants, tenant)
		}
	}
	return snapshot, top.err
}

func object(value any) *fields {
	values, ok := value.(map[string]any)
	if !ok {
		return &fields{err: errors.New("no object")}
	}
	return &fields{values: values}
}

// read gives the zero value for a key that is missing or null.
func read[T any](f *fields, key string) (value T) {
	if raw := f.values[key]; raw != nil {
		var ok bool
		if value, ok = raw.(T); !ok {
			f.err = errors.Join(f.err, errors.New("wrong type of "+key))
		}
	}
	return value
}

func (f *fields) rows(key string) []any    { return read[[]any](f, key) }
func (f *fields) text(key string) string   { return read[string](f, key) }
func (f *fields) flag(key string) bool     { return read[bool](f, key) }
func (f *fields) number(key string) string { return string(read[json.Number](f, key)) }

func (f *fields) integer(key string) int64 {
	text := f.number(key)
	if text == "" {
		return 0
	}
	value, err := strconv.ParseInt(text, 10, 64)
	f.err = errors.Join(f.err, err)
	return value
}

func (f *fields) count(key string) int64 {
	value := f.integer(key)
	if value < 0 {
		f.err = errors.Join(f.err, errors.New("negative "+key))
	}
	return value
}

func (f *fields) rate(key string) float32 {
	text := f.number(key)
	if text == "" {
		return 0
	}
	value, err := strconv.ParseFloat(text, 32)
	f.err = errors.Join(f.err, err)
	return float32(value)
}

func (f *fields) time(key string) time.Time {
	text := f.text(key)
	if f.values[key] == nil {
		return time.Time{}
	}
	var value time.Time
	f.err = errors.Join(f.err, value.UnmarshalText([]byte(text)))
	return value.UTC()
}
