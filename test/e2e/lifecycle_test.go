// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// ownedConfigMap creates a ConfigMap that belongs to a backend as a workload does.
func ownedConfigMap(t *testing.T, namespace string, backend *v1alpha1.CacheBackend) *corev1.ConfigMap {
	t.Helper()
	owner := metav1.NewControllerRef(backend, v1alpha1.APIVersion.WithKind("CacheBackend"))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{*owner}}}
	config, err := env.kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), config, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestGarbageCollection checks that the cluster's garbage collector knows our objects as owners: what a backend owns goes
// after it, before it, or stays, as the one who deletes it wishes.
func TestGarbageCollection(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, namespace string, policy metav1.DeletionPropagation) {
		t.Helper()
		if err := backendsIn(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(t *testing.T, namespace string) {
		t.Helper()
		eventually(t, "the ConfigMap is collected", func(ctx context.Context) (bool, error) {
			_, err := env.kube.CoreV1().ConfigMaps(namespace).Get(ctx, "owned", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	}
	t.Run("background", func(t *testing.T) {
		t.Parallel()
		namespace := newNamespace(t)
		ownedConfigMap(t, namespace, createBackend(t, namespace, hostOnly("a")))
		remove(t, namespace, metav1.DeletePropagationBackground)
		if _, err := backendsIn(namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the backend waits for what it owns: %v", err)
		}
		gone(t, namespace)
	})
	t.Run("foreground", func(t *testing.T) {
		t.Parallel()
		namespace := newNamespace(t)
		config := ownedConfigMap(t, namespace, createBackend(t, namespace, hostOnly("a")))
		hold(t, config)
		remove(t, namespace, metav1.DeletePropagationForeground)
		backend, err := backendsIn(namespace).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || backend.DeletionTimestamp == nil || strings.Join(backend.Finalizers, " ") != metav1.FinalizerDeleteDependents {
			t.Fatalf("the backend does not wait for what it owns: %+v, %v", backend, err)
		}
		release(t, config)
		gone(t, namespace)
		eventually(t, "the backend follows", func(ctx context.Context) (bool, error) {
			_, err := backendsIn(namespace).Get(ctx, "a", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	})
	t.Run("orphan", func(t *testing.T) {
		t.Parallel()
		namespace := newNamespace(t)
		ownedConfigMap(t, namespace, createBackend(t, namespace, hostOnly("a")))
		remove(t, namespace, metav1.DeletePropagationOrphan)
		eventually(t, "the ConfigMap has no owner", func(ctx context.Context) (bool, error) {
			config, err := env.kube.CoreV1().ConfigMaps(namespace).Get(ctx, "owned", metav1.GetOptions{})
			return err == nil && len(config.OwnerReferences) == 0, err
		})
	})
}

const testFinalizer = "inferencecache.io/e2e"

// hold keeps a ConfigMap from going.
func hold(t *testing.T, config *corev1.ConfigMap) {
	t.Helper()
	patchConfigMap(t.Context(), t, config, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, testFinalizer))
	t.Cleanup(func() { patchConfigMap(context.Background(), t, config, `{"metadata":{"finalizers":null}}`) })
}

func release(t *testing.T, config *corev1.ConfigMap) {
	t.Helper()
	patchConfigMap(t.Context(), t, config, `{"metadata":{"finalizers":null}}`)
}

func patchConfigMap(ctx context.Context, t *testing.T, config *corev1.ConfigMap, patch string) {
	t.Helper()
	_, err := env.kube.CoreV1().ConfigMaps(config.Namespace).Patch(ctx, config.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// TestNamespaces checks that objects live and die with their namespace, and that none is born into one that is not there or
// on its way out.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	_, err := backendsIn("no-such-namespace").Create(t.Context(), hostOnly("a"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "no-such-namespace" not found`) {
		t.Errorf("create in a missing namespace: got %v", err)
	}

	namespace := newNamespace(t)
	createBackend(t, namespace, hostOnly("a"))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "holds", Namespace: namespace}}
	if config, err = env.kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hold(t, config)
	if err := env.kube.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = backendsIn(namespace).Create(t.Context(), hostOnly("b"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("create in a namespace that is being deleted: got %v", err)
	}
	eventually(t, "the backend goes with its namespace", func(ctx context.Context) (bool, error) {
		_, err := backendsIn(namespace).Get(ctx, "a", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	release(t, config)
	eventually(t, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := env.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestObjectCountQuota checks that a namespace's quota bounds our kinds like any others.
func TestObjectCountQuota(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	const counted = "count/cachebackends.inferencecache.io"
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("0")}},
	}
	quotas := env.kube.CoreV1().ResourceQuotas(namespace)
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The cluster's quota controller learns of a new resource within half a minute, and looks at a quota that it could not
	// count when that changes, or after minutes.
	eventually(t, "the quota is in force", func(ctx context.Context) (bool, error) {
		quota, err := quotas.Get(ctx, "quota", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if _, counts := quota.Status.Used[counted]; counts {
			return true, nil
		}
		const unrelated = "count/replicasets.apps"
		value := quota.Spec.Hard[unrelated]
		value.Add(resource.MustParse("1"))
		quota.Spec.Hard[unrelated] = value
		_, err = quotas.Update(ctx, quota, metav1.UpdateOptions{})
		return false, ignoreConflict(err)
	})
	// Our server learns of a quota by a watch, so what is created in the very moment may not count. Once nothing is let
	// through any more, it knows.
	eventually(t, "the server knows the quota", func(ctx context.Context) (bool, error) {
		_, err := backendsIn(namespace).Create(ctx, hostOnly("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), nil
	})
	raise := []byte(`{"spec":{"hard":{"` + counted + `":"2"}}}`)
	if _, err := quotas.Patch(t.Context(), "quota", types.MergePatchType, raise, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	createWithinQuota(t, namespace, "a")
	createWithinQuota(t, namespace, "b")
	_, err := backendsIn(namespace).Create(t.Context(), hostOnly("c"), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: quota") || !strings.Contains(err.Error(), "used: "+counted+"=2") {
		t.Errorf("third backend: got %v", err)
	}
	patchBackend(t, namespace, "a", `{"spec":{"replicas":2}}`) // A change takes nothing.

	if err := backendsIn(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	createWithinQuota(t, namespace, "c")
}

// createWithinQuota creates a backend as soon as the quota has room for it.
func createWithinQuota(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, "there is room for "+name, func(ctx context.Context) (bool, error) {
		_, err := backendsIn(namespace).Create(ctx, hostOnly(name), metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// TestDryRun checks that a dry run of anything answers as the real request does and changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	dry := []string{metav1.DryRunAll}
	forEachKind(t, func(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured) {
		created := minimal(object.GetKind())
		created.SetName("b")
		if object.GetKind() == "CacheTenant" {
			setField(created.Object, "spec.tenantID", "b")
		}
		if _, err := client.Create(t.Context(), created, metav1.CreateOptions{DryRun: dry}); (err == nil) == (object.GetKind() == "CachePolicy") {
			t.Errorf("create: got %v; only a second policy is refused", err)
		}
		changed := object.DeepCopy()
		changed.SetLabels(map[string]string{"a": "b"})
		updated, err := client.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: dry})
		if err != nil || updated.GetLabels()["a"] != "b" {
			t.Errorf("update: got %v, %v", updated, err)
		}
		if _, err := client.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{DryRun: dry}); err != nil {
			t.Errorf("update of the status: %v", err)
		}
		patch := []byte(`{"metadata":{"labels":{"a":"c"}}}`)
		if _, err := client.Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry}); err != nil {
			t.Errorf("patch: %v", err)
		}
		if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dry}); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{}); err != nil {
			t.Errorf("delete of all: %v", err)
		}
		left, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) != 1 || left.Items[0].GetResourceVersion() != object.GetResourceVersion() {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}
