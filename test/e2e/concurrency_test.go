// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

// TestConflicts checks that nobody overwrites a change without having seen it.
func TestConflicts(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured) {
		stale := object.DeepCopy()
		object.SetLabels(map[string]string{"changed": "by-somebody"})
		if _, err := client.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("update from a stale version: got %v, want a conflict", err)
		}
		if _, err := client.UpdateStatus(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("update of the status from a stale version: got %v, want a conflict", err)
		}
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{"a":"b"}}}`, stale.GetResourceVersion())
		for _, subresource := range []string{"", "status"} {
			if _, err := client.Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}, subresource); !apierrors.IsConflict(err) {
				t.Errorf("patch of %q from a stale version: got %v, want a conflict", subresource, err)
			}
		}
		// Without a version a patch is made from whatever is there.
		if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// TestUpdateNeedsVersion checks that a replacement names the version that it replaces.
func TestUpdateNeedsVersion(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured) {
		object.SetResourceVersion("")
		for name, update := range map[string]func() error{
			"main": func() error {
				_, err := client.Update(t.Context(), object, metav1.UpdateOptions{})
				return err
			},
			"status": func() error {
				_, err := client.UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
				return err
			},
		} {
			err := update()
			if !apierrors.IsInvalid(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) {
				t.Errorf("%s: got %v, want metadata.resourceVersion to be invalid", name, err)
			}
		}
	})
}

// TestUpdateCreatesNothing checks that a replacement of what is not there, or no longer, does not bring it to life.
func TestUpdateCreatesNothing(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured) {
		if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		withoutVersion := object.DeepCopy()
		withoutVersion.SetResourceVersion("")
		withoutVersion.SetUID("")
		for _, body := range []*unstructured.Unstructured{object, withoutVersion} {
			if _, err := client.Update(t.Context(), body, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("update with version %q: got %v, want not found", body.GetResourceVersion(), err)
			}
		}
		if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("patch: got %v, want not found", err)
		}
		// An object of the same name is another one.
		if _, err := client.Create(t.Context(), minimal(object.GetKind()), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Update(t.Context(), object, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("update of the one before: got %v, want a conflict", err)
		}
		if _, err := client.Create(t.Context(), minimal(object.GetKind()), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("second create: got %v, want already exists", err)
		}
	})
}

// TestDeletePreconditions checks that a client can delete exactly what it has seen.
func TestDeletePreconditions(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured) {
		uid, version := object.GetUID(), object.GetResourceVersion()
		for name, wrong := range map[string]metav1.Preconditions{
			"uid":     {UID: new(types.UID("another"))},
			"version": {UID: &uid, ResourceVersion: new("1")},
		} {
			if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &wrong}); !apierrors.IsConflict(err) {
				t.Errorf("wrong %s: got %v, want a conflict", name, err)
			}
		}
		right := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
		if err := client.Delete(t.Context(), "a", right); err != nil {
			t.Error(err)
		}
		if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("second delete: got %v, want not found", err)
		}
	})
}

// TestConcurrentWriters checks that no change is lost when many write the same object at a time, as controllers and users
// do, each in its own way.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	const writers = 8
	client := backendsIn(newNamespace(t))
	if _, err := client.Create(t.Context(), hostOnly("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	increment := func() error {
		backend, err := client.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		backend.Spec.Replicas = new(*backend.Spec.Replicas + 1)
		_, err = client.Update(t.Context(), backend, metav1.UpdateOptions{})
		return err
	}
	backoff := retry.DefaultRetry
	backoff.Steps = 1000
	var done sync.WaitGroup
	for i := range writers {
		done.Go(func() {
			if err := retry.OnError(backoff, apierrors.IsConflict, increment); err != nil {
				t.Errorf("increment %d: %v", i, err)
			}
		})
		done.Go(func() {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"writer-%d":"was-here"}}}`, i)
			// The server itself tries again a few times, and then says so.
			err := retry.OnError(backoff, apierrors.IsConflict, func() error {
				_, err := client.Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			})
			if err != nil {
				t.Errorf("patch %d: %v", i, err)
			}
		})
	}
	done.Wait()
	backend, err := client.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *backend.Spec.Replicas != 1+writers || len(backend.Labels) != writers || backend.Generation != 1+writers {
		t.Errorf("got %d replicas, %d labels and generation %d", *backend.Spec.Replicas, len(backend.Labels), backend.Generation)
	}
}
