// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func updateStatus(t *testing.T, namespace string, backend *v1alpha1.CacheBackend) *v1alpha1.CacheBackend {
	t.Helper()
	updated, err := backendsIn(namespace).UpdateStatus(t.Context(), backend, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return updated
}

func stateOf(conditionType string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: "Tested", LastTransitionTime: metav1.Now().Rfc3339Copy()}
}

// TestStatusIsSeparate checks that who may write the status can change nothing else, and the other way round.
func TestStatusIsSeparate(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured) {
		spec := object.DeepCopy().Object["spec"]
		object.SetLabels(map[string]string{"a": "b"})
		object.SetAnnotations(map[string]string{"a": "b"})
		object.SetFinalizers([]string{testFinalizer})
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "a"}})
		setField(object.Object, "spec."+map[string]string{"CacheBackend": "modelID", "CachePolicy": "eviction", "CacheTenant": "tenantID"}[object.GetKind()], "LFU")
		setField(object.Object, "status.observedGeneration", int64(1))
		updated, err := client.UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(updated.GetLabels())+len(updated.GetAnnotations())+len(updated.GetFinalizers())+len(updated.GetOwnerReferences()) != 0 {
			t.Errorf("a status write changes metadata: %v", updated.Object["metadata"])
		}
		if diff := cmp.Diff(spec, updated.Object["spec"]); diff != "" || updated.GetGeneration() != 1 {
			t.Errorf("a status write changes the spec (-before +after), generation %d:\n%s", updated.GetGeneration(), diff)
		}

		setField(updated.Object, "status.observedGeneration", int64(7))
		updated.SetLabels(map[string]string{"a": "b"})
		updated, err = client.Update(t.Context(), updated, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedInt64(updated.Object, "status", "observedGeneration"); got != 1 || updated.GetGeneration() != 1 {
			t.Errorf("a change of a label leads to observedGeneration %d and generation %d", got, updated.GetGeneration())
		}
	})
}

// TestGeneration checks that the generation counts what a controller has to act on: changes of the spec, defaults included.
func TestGeneration(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, hostOnly("a"))
	for _, test := range []struct {
		patch string
		want  int64
	}{
		{`{"metadata":{"labels":{"a":"b"}}}`, 1},
		{`{"spec":{"replicas":1,"type":"LMCache"}}`, 1}, // These are the defaults.
		{`{"spec":{"replicas":2}}`, 2},
		{`{"spec":{"replicas":2,"integration":null}}`, 2}, // The default comes back.
		{`{"spec":{"replicas":null}}`, 3},
	} {
		if got := patchBackend(t, namespace, "a", test.patch).Generation; got != test.want {
			t.Errorf("%s leads to generation %d, want %d", test.patch, got, test.want)
		}
	}
}

// TestLatch checks that the time of the first KV event is written once: no client can move it or take it back.
func TestLatch(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	backend := createBackend(t, namespace, hostOnly("a"))
	first := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	backend.Status.FirstKVEventObservedAt = &first
	backend = updateStatus(t, namespace, backend)
	for name, value := range map[string]*metav1.Time{"unset": nil, "moved": new(metav1.Now())} {
		backend.Status.FirstKVEventObservedAt = value
		backend = updateStatus(t, namespace, backend)
		if got := backend.Status.FirstKVEventObservedAt; !got.Equal(&first) {
			t.Errorf("%s: the latch is %v, want %v", name, got, first)
		}
	}
	backend = patchBackend(t, namespace, "a", `{"spec":{"runtime":"SGLang"},"status":{"firstKVEventObservedAt":null}}`)
	if got := backend.Status.FirstKVEventObservedAt; !got.Equal(&first) {
		t.Errorf("after a change of the spec the latch is %v, want %v", got, first)
	}
}

// TestExternalStatus checks that the status of an external tier is what follows from its spec, whoever writes what.
func TestExternalStatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	backend := createBackend(t, namespace, external("a", " lm://kv.example.net:65432 "))
	truth := backend.Status
	ready := apimeta.FindStatusCondition(truth.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != 1 || truth.Endpoint != "lm://kv.example.net:65432" {
		t.Fatalf("on create: got %+v", truth)
	}

	backend.Status.Endpoint = "forged.example.net:1"
	backend.Status.Conditions = []metav1.Condition{
		stateOf(v1alpha1.ConditionReady, metav1.ConditionFalse), stateOf(v1alpha1.ConditionDegraded, metav1.ConditionTrue),
	}
	backend = updateStatus(t, namespace, backend)
	if diff := cmp.Diff(truth, backend.Status); diff != "" {
		t.Errorf("a forged status stays (-want +got):\n%s", diff)
	}

	// Another endpoint that is as good is no transition.
	backend = patchBackend(t, namespace, "a", `{"spec":{"remoteStorage":{"endpoint":"kv-2.example.net:1"}}}`)
	moved := apimeta.FindStatusCondition(backend.Status.Conditions, v1alpha1.ConditionReady)
	if backend.Status.Endpoint != "kv-2.example.net:1" || moved.ObservedGeneration != 2 || !moved.LastTransitionTime.Equal(&ready.LastTransitionTime) {
		t.Errorf("after a change of the endpoint: got %+v", backend.Status)
	}

	backend = patchBackend(t, namespace, "a", `{"spec":{"remoteStorage":{"ownership":"Managed","endpoint":null}}}`)
	if backend.Status.Endpoint != "" || len(backend.Status.Conditions) != 0 {
		t.Errorf("a managed tier has the status of the external one before: %+v", backend.Status)
	}
}

// TestStatusIsChecked checks what a status write may say.
func TestStatusIsChecked(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	backend := createBackend(t, namespace, hostOnly("a"))
	backend.Status = v1alpha1.CacheBackendStatus{
		MatchedEnginePods:  new(int32(-1)),
		ObservedGeneration: -1,
		IndexParticipation: &v1alpha1.IndexParticipation{PrefixCount: -1},
		Conditions: []metav1.Condition{
			stateOf("Ready", metav1.ConditionTrue), stateOf("Ready", metav1.ConditionFalse), {Type: "Degraded", Status: "Maybe"},
		},
	}
	_, err := backendsIn(namespace).UpdateStatus(t.Context(), backend, metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want invalid", err)
	}
	got := map[string]bool{}
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		got[cause.Field] = true
	}
	for _, field := range []string{
		"status.matchedEnginePods", "status.observedGeneration", "status.indexParticipation.prefixCount",
		"status.conditions[1]", "status.conditions[2].status", "status.conditions[2].reason",
	} {
		if !got[field] {
			t.Errorf("nothing is said about %s: %v", field, err)
		}
	}
}

// TestLegacyObjectTakesStatus checks that an object which today's rules would refuse still reports its state and takes
// changes that have nothing to do with what is wrong.
func TestLegacyObjectTakesStatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	legacy := hostOnly("a")
	legacy.APIVersion, legacy.Kind = v1alpha1.APIVersion.String(), "CacheBackend"
	legacy.Namespace = namespace
	legacy.Spec.HiCache = &v1alpha1.HiCacheSpec{Ratio: "2"} // Not for LMCache.
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(legacy)
	if err != nil {
		t.Fatal(err)
	}
	plant(t, &unstructured.Unstructured{Object: object})

	backend, err := backendsIn(namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	backend.Status.MatchedEnginePods = new(int32(2))
	backend = updateStatus(t, namespace, backend)
	if *backend.Status.MatchedEnginePods != 2 {
		t.Errorf("got status %+v", backend.Status)
	}
	patchBackend(t, namespace, "a", `{"metadata":{"labels":{"a":"b"}}}`)
	if _, err := backendsIn(namespace).Create(t.Context(), &v1alpha1.CacheBackend{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: legacy.Spec}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a new one like it: got %v, want invalid", err)
	}
}
