// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// MetricsHandler serves etcd's own metrics. They are registered in the default registry of Prometheus, beside what any
// other library puts there and apart from the metrics of the API server, which serves a registry of its own.
func MetricsHandler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{})
}

// gather keeps what begins with etcd_; what etcd has beside it (gRPC, Go runtime) the API server's own metrics tell.
func gather() ([]*dto.MetricFamily, error) {
	families, err := prometheus.DefaultGatherer.Gather()
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return !strings.HasPrefix(f.GetName(), "etcd_")
	})
	return families, err
}
