// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/uuid"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cluster"
)

// BenchmarkAdmission measures what the webhook adds to the creation of a pod: a review over TLS on a connection that is
// kept, as kube-apiserver's is, with a consistent read of the backends of the pod's namespace. The first of them selects
// the pod.
func BenchmarkAdmission(b *testing.B) {
	for _, tt := range []struct{ inNamespace, elsewhere int }{{1, 0}, {100, 0}, {1000, 0}, {1, 1000}} {
		b.Run(fmt.Sprintf("backends=%d/elsewhere=%d", tt.inNamespace, tt.elsewhere), func(b *testing.B) {
			serving(b)
			const namespace = "bench"
			fill(b, namespace, tt.inNamespace)
			for i := range 10 {
				fill(b, fmt.Sprintf("bench-%d", i), tt.elsewhere/10)
			}
			client, body := webhookClient(b), reviewOf(b, namespace, newPod(namespace, "x"))
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				code, answer, err := post(b.Context(), client, body)
				took = append(took, time.Since(begun))
				if err != nil || code != http.StatusOK {
					b.Fatalf("got %d %s (error %v)", code, answer, err)
				}
				if response, err := decode(answer); err != nil || response.AuditAnnotations["outcome"] != "wired" {
					b.Fatalf("got %s (error %v), want wired", answer, err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// fill puts backends into etcd, of which the first selects the pods of newPod.
func fill(b *testing.B, namespace string, count int) {
	b.Helper()
	prefix := path.Join(cluster.StorePrefix, v1alpha1.GroupName, "cachebackends", namespace) + "/"
	b.Cleanup(func() {
		if _, err := env.etcd.Delete(context.Background(), prefix, clientv3.WithPrefix()); err != nil {
			b.Error(err)
		}
	})
	for i := range count {
		backend := newBackend(namespace, fmt.Sprintf("backend-%04d", i))
		backend.UID = uuid.NewUUID()
		if i > 0 {
			backend.Spec.EngineSelector.MatchLabels = map[string]string{"serve": backend.Name}
		}
		plant(b, backend)
	}
}
