// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// TestT2Metrics is one controller over several ticks.
func TestT2Metrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m, err := newT2Metrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	one, two := newBackend("ns1", "one", nil), newBackend("ns2", "two", nil)
	both := []v1alpha1.CacheBackend{one, two}
	asked := func(hits, queries int64) *share { return &share{t2Hits: hits, t2Queries: queries} }
	for _, tick := range []struct {
		name     string
		backends []v1alpha1.CacheBackend
		one, two *share
		unknown  []string
		rates    map[string]string
		queries  map[string]string
	}{
		{name: "nothing yet", backends: both},
		{name: "not exercised", backends: both, one: asked(0, 0)},
		{name: "first sight", backends: both, one: asked(1, 3), two: asked(0, 500),
			rates:   map[string]string{"ns1/one": "0.3333333333333333", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "0", "ns2/two": "0"}},
		{name: "growth", backends: both, one: asked(6, 8), two: asked(0, 500),
			rates:   map[string]string{"ns1/one": "0.75", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "5", "ns2/two": "0"}},
		{name: "more hits than queries", backends: both, one: asked(16, 8), two: asked(0, 600),
			rates:   map[string]string{"ns1/one": "1", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "5", "ns2/two": "100"}},
		{name: "a drop", backends: both, one: asked(1, 2), two: asked(0, 600),
			rates:   map[string]string{"ns1/one": "0.5", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "5", "ns2/two": "100"}},
		{name: "growth after a drop", backends: both, one: asked(1, 4), two: asked(0, 600),
			rates:   map[string]string{"ns1/one": "0.25", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "7", "ns2/two": "100"}},
		{name: "unknown pods", backends: both, one: asked(1, 4), unknown: []string{"ns2"},
			rates:   map[string]string{"ns1/one": "0.25", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "7", "ns2/two": "100"}},
		{name: "known again", backends: both, one: asked(1, 4), two: asked(0, 650),
			rates:   map[string]string{"ns1/one": "0.25", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "7", "ns2/two": "150"}},
		{name: "no queries any more", backends: both, two: asked(0, 650),
			rates: map[string]string{"ns2/two": "0"}, queries: map[string]string{"ns2/two": "150"}},
		{name: "back again", backends: both, one: asked(1, 40), two: asked(0, 650),
			rates:   map[string]string{"ns1/one": "0.025", "ns2/two": "0"},
			queries: map[string]string{"ns1/one": "0", "ns2/two": "150"}},
		{name: "a backend goes while its pods are unknown", backends: []v1alpha1.CacheBackend{one}, one: asked(1, 40), unknown: []string{"ns2"},
			rates: map[string]string{"ns1/one": "0.025"}, queries: map[string]string{"ns1/one": "0"}},
		{name: "no backends"},
	} {
		shares := map[types.NamespacedName]*share{}
		if tick.one != nil {
			shares[key("ns1", "one")] = tick.one
		}
		if tick.two != nil {
			shares[key("ns2", "two")] = tick.two
		}
		m.update(tick.backends, shares, sets.New(tick.unknown...))
		want := exposition("inferencecache_backend_t2_hit_rate", "gauge",
			"Share of the tokens asked of a backend's second tier that it served, from 0 to 1, over the lifetime of its engines. Absent while it was not asked.", tick.rates) +
			exposition("inferencecache_backend_t2_query_tokens_total", "counter",
				"Tokens asked of a backend's second tier since this controller first saw it asked.", tick.queries)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Errorf("%s: %v", tick.name, err)
		}
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func exposition(name, kind, help string, values map[string]string) string {
	if len(values) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
	for backend, value := range values {
		text.WriteString(name + `{backend="` + backend + `"} ` + value + "\n")
	}
	return text.String()
}
