// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"inferencecache.io/inferencecache/test/admissioncases"
	"inferencecache.io/inferencecache/test/cluster"
)

// caseNamespaces are those of the golden cases.
var caseNamespaces = []string{"kv-lab", "other-lab"}

// TestAdmissionCases sends the golden cases to a running control plane: users get the same verdicts, defaults and
// warnings there as from the strategies alone.
//
// The cases name their namespaces, also inside endpoints, and what is in them is part of a case. So that every object is
// sent just as it is written, they run one after another in these namespaces, which no other test uses, and clean up.
func TestAdmissionCases(t *testing.T) {
	t.Parallel()
	cases, err := admissioncases.Load(filepath.Join(cluster.Root(), "testdata", "admission-cases"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range caseNamespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		eventually(t, "there is a fresh namespace "+name, func(ctx context.Context) (bool, error) {
			_, err := env.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return false, nil // The one of the run before is on its way out.
			}
			return err == nil, err
		})
		t.Cleanup(func() {
			_ = env.kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { runCase(t, c) })
	}
}

func runCase(t *testing.T, c admissioncases.Case) {
	for _, existing := range c.Existing {
		plant(t, &existing)
		removeAtEnd(t, &existing)
	}
	if c.Old != nil {
		plant(t, c.Old)
	}
	removeAtEnd(t, c.Object)
	before := revisionOf(t, c.Object)
	got := sendCase(t, c)

	if !c.Expect.Allowed {
		var status apierrors.APIStatus
		if !errors.As(got.err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
			t.Fatalf("got error %v, want Invalid", got.err)
		}
		if err := admissioncases.CheckErrors(c.Expect.Errors, status.Status().Details.Causes); err != nil {
			t.Errorf("%v\n%s", err, status.Status().Message)
		}
		if len(got.warnings) > 0 {
			t.Errorf("a refused write carries warnings: %q", got.warnings)
		}
		if revisionOf(t, c.Object) != before {
			t.Error("a refused write is stored")
		}
		return
	}
	if got.err != nil {
		t.Fatalf("refused: %v", got.err)
	}
	if err := admissioncases.CheckWarnings(c.Expect.Warnings, got.warnings); err != nil {
		t.Error(err)
	}
	stored := send(t, requestTo("GET", c.Object.GetKind(), c.Object.GetNamespace()).Name(c.Object.GetName()), nil)
	for _, object := range []map[string]any{got.object, stored.object} {
		if err := admissioncases.CheckDefaults(object, c.Expect.Defaults); err != nil {
			t.Error(err)
		}
	}
}

// revisionOf returns the etcd revision of the last write of an object, 0 if it is not stored.
func revisionOf(t *testing.T, object *unstructured.Unstructured) int64 {
	t.Helper()
	stored, err := env.etcd.Get(t.Context(), keyOf(object.GetKind(), object.GetNamespace(), object.GetName()))
	if err != nil {
		t.Fatal(err)
	}
	if len(stored.Kvs) == 0 {
		return 0
	}
	return stored.Kvs[0].ModRevision
}

// sendCase sends the request of a case. Unknown members are ignored, as the cases want it.
func sendCase(t *testing.T, c admissioncases.Case) answer {
	t.Helper()
	object := c.Object.DeepCopy()
	kind, namespace, name := object.GetKind(), object.GetNamespace(), object.GetName()
	if c.Operation == admissioncases.Create {
		return send(t, requestTo("POST", kind, namespace).Param("fieldValidation", metav1.FieldValidationIgnore), object.Object)
	}
	stored := send(t, requestTo("GET", kind, namespace).Name(name), nil)
	if stored.err != nil {
		t.Fatal(stored.err)
	}
	object.SetResourceVersion((&unstructured.Unstructured{Object: stored.object}).GetResourceVersion())
	return send(t, requestTo("PUT", kind, namespace).Name(name).Param("fieldValidation", metav1.FieldValidationIgnore), object.Object)
}

func removeAtEnd(t *testing.T, object *unstructured.Unstructured) {
	t.Cleanup(func() {
		client := env.dynamic.Resource(resources[object.GetKind()]).Namespace(object.GetNamespace())
		if err := client.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}
