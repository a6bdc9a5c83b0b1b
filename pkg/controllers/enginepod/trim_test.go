// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// fullPod has about as much metadata as a pod of a Deployment, on which several wrote.
func fullPod(name string, annotations map[string]string) *metav1.PartialObjectMetadata {
	pod := podNamed(name, types.UID("0b7c1f3e-5a7d-4f0e-9c53-"+name))
	pod.GenerateName = name + "-"
	pod.CreationTimestamp = metav1.NewTime(time.Unix(1_770_000_000, 0))
	pod.Generation = 1
	pod.Finalizers = []string{"example.com/hold"}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "R1", Controller: new(true)}}
	pod.Labels = map[string]string{}
	for i := range 8 {
		pod.Labels[fmt.Sprintf("example.com/label-%d", i)] = name
	}
	pod.Annotations = merged(annotations, map[string]string{"example.com/config": strings.Repeat(name, 1024/len(name))})
	for _, manager := range []string{"kube-controller-manager", "kubelet", "scheduler"} {
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{` + strings.Repeat(`"f:name":{},`, 100) + `"f:end":{}}}`),
		})
	}
	return pod
}

func TestTrim(t *testing.T) {
	t.Parallel()
	wired := injected("ml/cache.eu", "U1")
	skip := optedOut("please", v1alpha1.InjectSkippedByAnnotation)
	long := strings.Repeat("x", 1<<10)
	for name, tt := range map[string]struct{ annotations, want map[string]string }{
		"foreign":              {nil, nil},
		"unmarked":             {map[string]string{v1alpha1.AnnotationSkipInject: "true"}, nil},
		"wired":                {wired, wired},
		"skipped":              {skip, skip},
		"both":                 {merged(wired, skip), merged(wired, skip)},
		"long reference":       {injected("ml/"+long, long), injected("ml/"+long[:317], long[:320])},
		"long text, opted out": {optedOut(long, v1alpha1.InjectSkippedByAnnotation), optedOut(long[:320], v1alpha1.InjectSkippedByAnnotation)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := trim(fullPod("engine-0", tt.annotations))
			if err != nil {
				t.Fatal(err)
			}
			want := podNamed("engine-0", fullPod("engine-0", nil).UID)
			want.Annotations = tt.want
			if diff := cmp.Diff(any(want), got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTrimKeepsDecisions: what is decided about a pod is the same when it has been trimmed.
func TestTrimKeepsDecisions(t *testing.T) {
	t.Parallel()
	const mark = v1alpha1.InjectSkippedByAnnotation
	atLimit := strings.Repeat("l", 63) + "/" + strings.Repeat("n", 253)
	for _, annotations := range []map[string]string{
		nil, injected("ml/cache.eu", "U1"), injected("ml/cache.eu", "U1"+strings.Repeat("x", maxValue)), injected(atLimit, "U1"),
		injected(atLimit+"n", "U1"), injected(atLimit+strings.Repeat("n", maxValue), "U1"), injected("ml/unreadable", "U1"),
		optedOut("disabled", mark), optedOut("disabled"+strings.Repeat(" ", maxValue), mark), optedOut("1"+strings.Repeat("0", maxValue), mark),
		optedOut("true", mark+strings.Repeat("n", maxValue)),
	} {
		var asked, askedTrimmed []string
		want, wantErr := decide(annotations, lookUp(&asked))
		trimmed, err := trim(fullPod("engine-0", annotations))
		if err != nil {
			t.Fatal(err)
		}
		got, gotErr := decide(trimmed.(*metav1.PartialObjectMetadata).Annotations, lookUp(&askedTrimmed))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(news{})); diff != "" || (wantErr == nil) != (gotErr == nil) {
			t.Errorf("%v: errors %v and %v, news (-want +got):\n%s", annotations, wantErr, gotErr, diff)
		}
		if diff := cmp.Diff(asked, askedTrimmed); diff != "" {
			t.Errorf("%v: read (-want +got):\n%s", annotations, diff)
		}
	}
}

// TestTrimLeavesTombstones: a store hands on what it missed the end of.
func TestTrimLeavesTombstones(t *testing.T) {
	t.Parallel()
	tombstone := cache.DeletedFinalStateUnknown{Key: "ml/engine-0", Obj: podNamed("engine-0", "P1")}
	got, err := trim(tombstone)
	if diff := cmp.Diff(any(tombstone), got); err != nil || diff != "" {
		t.Errorf("error %v, kept (-want +got):\n%s", err, diff)
	}
}

// BenchmarkForeignPods tells what the cache holds of each pod that is no engine, beside what it
// would hold of its metadata.
func BenchmarkForeignPods(b *testing.B) {
	whole := func(object any) (any, error) { return object, nil }
	for name, transform := range map[string]cache.TransformFunc{"whole": whole, "trimmed": trim} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(held(b, 5_000, transform), "B/pod")
			}
		})
	}
}

// held is the memory that a store takes for each of so many pods.
func held(b *testing.B, count int, transform cache.TransformFunc) float64 {
	b.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	before := heap()
	for i := range count {
		pod, err := transform(fullPod(fmt.Sprintf("web-%06d", i), nil))
		if err != nil {
			b.Fatal(err)
		}
		if err := store.Add(pod); err != nil {
			b.Fatal(err)
		}
	}
	after := heap()
	runtime.KeepAlive(store)
	return float64(after-before) / float64(count)
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
