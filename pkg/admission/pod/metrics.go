// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	injections = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "inferencecache_pod_injection_total",
		Help:           "Pods that the webhook decided about, by outcome and reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome", "reason"})
	reviewErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "inferencecache_pod_review_errors_total",
		Help:           "Reviews that the webhook did not answer, by HTTP status code. Their pods are not wired.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"code"})
	injectionDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "inferencecache_pod_injection_duration_seconds",
		Help:           "Time to decide about a pod, the reading of backends included, by outcome.",
		Buckets:        []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5},
		StabilityLevel: metrics.ALPHA,
	}, []string{"outcome"})
)

// registerMetrics adds the metrics to those of the API server, once.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(injections, reviewErrors, injectionDuration)
})

func observeError(code int) {
	reviewErrors.WithLabelValues(strconv.Itoa(code)).Inc()
}

func observe(decision Decision, took time.Duration) {
	injections.WithLabelValues(string(decision.Outcome), string(decision.Reason)).Inc()
	injectionDuration.WithLabelValues(string(decision.Outcome)).Observe(took.Seconds())
}
