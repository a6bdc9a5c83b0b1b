// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	injections        = "inferencecache_pod_injection_total"
	injectionDuration = "inferencecache_pod_injection_duration_seconds"
)

// metrics reads our server's metrics, by the names and labels of their series.
func metrics(t *testing.T) map[string]float64 {
	t.Helper()
	config := env.RESTConfig()
	config.Host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(env.APIServer.Port))
	config.CAFile, config.CAData = env.APIServer.CAFile, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "#") || !found {
			continue
		}
		if series[name], err = strconv.ParseFloat(value, 64); err != nil && strings.HasPrefix(name, "inferencecache_") {
			t.Errorf("%q: %v", line, err)
		}
	}
	return series
}

// TestMetrics asserts that an operator can see how many pods are wired, and how many are not for which reason: an alert
// on a reason is how one learns of pods that run without their cache.
func TestMetrics(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	managed := newBackend(namespace, "b")
	managed.Spec.EngineSelector.MatchLabels = map[string]string{"serve": "nova"}
	managed.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{
		Provider: v1alpha1.StorageProviderLMCacheServer, Ownership: v1alpha1.StorageOwnershipManaged,
	}
	createBackend(t, managed)
	before := metrics(t)

	for i := range 3 {
		create(t, newPod(namespace, fmt.Sprintf("wired-%d", i)), dryRun)
	}
	pod := newPod(namespace, "unwired")
	pod.Labels = managed.Spec.EngineSelector.MatchLabels
	create(t, pod, dryRun)
	pod = newPod(namespace, "no-match")
	pod.Labels = nil
	create(t, pod, dryRun)
	pod = newPod(namespace, "skipped")
	pod.Annotations = map[string]string{v1alpha1.AnnotationSkipInject: "true"}
	create(t, pod, dryRun)

	after := metrics(t)
	outcomes := map[string]float64{}
	for series, want := range map[string]float64{
		`{outcome="wired",reason="wired"}`:              3,
		`{outcome="unwired",reason="endpoint-missing"}`: 1,
		`{outcome="unwired",reason="no-match"}`:         1,
		`{outcome="skipped",reason="skipped"}`:          1,
	} {
		if got := after[injections+series] - before[injections+series]; got != want {
			t.Errorf("%s%s grows by %v, want %v", injections, series, got, want)
		}
		outcome, _, _ := strings.Cut(series, ",")
		outcomes[outcome+"}"] += want
	}
	for outcome, want := range outcomes {
		count, sum := injectionDuration+"_count"+outcome, injectionDuration+"_sum"+outcome
		if got := after[count] - before[count]; got != want {
			t.Errorf("%s grows by %v, want %v", count, got, want)
		}
		if after[sum] <= before[sum] {
			t.Errorf("%s does not grow", sum)
		}
	}
}
