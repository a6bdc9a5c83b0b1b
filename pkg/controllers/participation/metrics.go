// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const labelBackend = "backend"

// t2Metrics are about the second tier of each backend that has one in use.
type t2Metrics struct {
	hitRate *prometheus.GaugeVec
	queries *prometheus.CounterVec
	// last has the query tokens of the last tick. A backend is in it while it has series.
	last map[types.NamespacedName]int64
}

func newT2Metrics(registerer prometheus.Registerer) (*t2Metrics, error) {
	m := &t2Metrics{
		hitRate: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "inferencecache_backend_t2_hit_rate",
			Help: "Share of the tokens asked of a backend's second tier that it served, from 0 to 1, over the lifetime of its engines. Absent while it was not asked.",
		}, []string{labelBackend}),
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inferencecache_backend_t2_query_tokens_total",
			Help: "Tokens asked of a backend's second tier since this controller first saw it asked.",
		}, []string{labelBackend}),
		last: map[types.NamespacedName]int64{},
	}
	for _, collector := range []prometheus.Collector{m.hitRate, m.queries} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}

// update takes over the shares of a tick. The series of a backend go with it, and when its
// second tier is not in use any more; where that is not known they stay.
func (m *t2Metrics) update(backends []v1alpha1.CacheBackend, shares map[types.NamespacedName]*share, unknown sets.Set[string]) {
	gone := sets.KeySet(m.last)
	for i := range backends {
		key := types.NamespacedName{Namespace: backends[i].Namespace, Name: backends[i].Name}
		if unknown.Has(key.Namespace) {
			gone.Delete(key)
			continue
		}
		if rate, asked := shares[key].t2HitRate(); asked {
			gone.Delete(key)
			m.record(key, rate, shares[key].t2Queries)
		}
	}
	for key := range gone {
		m.forget(key)
	}
}

// record counts what was asked since the last tick. Engines count from zero when they start:
// the sum may fall, and what was asked in between is not known.
func (m *t2Metrics) record(key types.NamespacedName, rate float64, queries int64) {
	m.hitRate.WithLabelValues(key.String()).Set(rate)
	counter := m.queries.WithLabelValues(key.String())
	if last, ok := m.last[key]; ok && queries > last {
		counter.Add(float64(queries - last))
	}
	m.last[key] = queries
}

func (m *t2Metrics) forget(key types.NamespacedName) {
	m.hitRate.DeleteLabelValues(key.String())
	m.queries.DeleteLabelValues(key.String())
	delete(m.last, key)
}
