// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	probeResults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inferencecache_backend_probe_result_total",
		Help: "Results of the stages of functional probes that the cache server answered.",
	}, []string{"backend", "stage", "result"})

	restartCascades = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inferencecache_backend_server_restart_cascades_total",
		Help: "Times that a replaced cache server was followed by the restart of its engines, if it had any.",
	}, []string{"namespace", "backend", "reason"})
)

func init() { metrics.Registry.MustRegister(probeResults, restartCascades) }

// forgetMetrics drops the series of a backend that is gone.
func forgetMetrics(backend types.NamespacedName) {
	probeResults.DeletePartialMatch(prometheus.Labels{"backend": backend.String()})
	restartCascades.DeletePartialMatch(prometheus.Labels{"namespace": backend.Namespace, "backend": backend.Name})
}
