// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// TestOptOut asserts that a pod, a namespace and the cluster's own namespaces can be left alone, and that a namespace can
// change its mind at any time.
func TestOptOut(t *testing.T) {
	serving(t)
	t.Run("Pod", func(t *testing.T) {
		namespace := newNamespace(t, nil)
		createBackend(t, newBackend(namespace, "a"))
		pod := newPod(namespace, "by-hand")
		pod.Annotations = map[string]string{v1alpha1.AnnotationSkipInject: "wired by hand"}
		got := createDecided(t, pod, forReal)
		want := map[string]string{
			v1alpha1.AnnotationSkipInject:    "wired by hand",
			v1alpha1.AnnotationInjectSkipped: v1alpha1.InjectSkippedByAnnotation,
		}
		if diff := cmp.Diff(want, got.pod.Annotations); diff != "" || got.outcome() != "skipped" {
			t.Errorf("outcome %q, annotations (-want +got):\n%s", got.outcome(), diff)
		}
		if len(got.warnings) > 0 {
			t.Errorf("warnings %q", got.warnings)
		}
		if containers := got.pod.Spec.Containers; len(containers) != 1 || len(containers[0].Env) > 0 {
			t.Errorf("the pod is changed: %+v", containers)
		}
	})
	t.Run("Namespace", func(t *testing.T) {
		namespace := newNamespace(t, map[string]string{injectionLabel: "disabled"})
		createBackend(t, newBackend(namespace, "a"))
		expectNotAsked(t, namespace)
		label := func(value, outcome string) {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, injectionLabel, value)
			if _, err := env.kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the label counts", func(ctx context.Context) error {
				got, err := tryCreate(ctx, newPod(namespace, "probe"), dryRun)
				if err == nil && got.outcome() != outcome {
					err = fmt.Errorf("outcome %q", got.outcome())
				}
				return err
			})
		}
		label("null", "wired")
		label(`"disabled"`, "")
		label(`"enabled"`, "wired")
	})
	for _, namespace := range []string{metav1.NamespaceSystem, systemNamespace} {
		t.Run(namespace, func(t *testing.T) {
			waitPodsAllowed(t, namespace)
			backend := createBackend(t, newBackend(namespace, "a"))
			t.Cleanup(func() { removeBackend(t, backend) })
			expectNotAsked(t, namespace)
		})
	}
}

// expectNotAsked creates a pod that a backend selects, where the webhook has no say.
func expectNotAsked(t *testing.T, namespace string) {
	t.Helper()
	got := create(t, newPod(namespace, "untouched"), forReal)
	expectPlain(t, got)
	if got.outcome() != "" || got.failedOpen(webhookName) {
		t.Errorf("the webhook was asked: %v", got.audit)
	}
}

// TestRestrictedNamespace asserts that what is added to a pod keeps to the strictest of the pod security standards, as far
// as the pod does as a whole.
func TestRestrictedNamespace(t *testing.T) {
	serving(t, subscriberArg)
	for _, runtime := range []v1alpha1.Runtime{v1alpha1.RuntimeVLLM, v1alpha1.RuntimeSGLang} {
		t.Run(string(runtime), func(t *testing.T) {
			namespace := newNamespace(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
			backend := newBackend(namespace, "a")
			backend.Annotations = map[string]string{v1alpha1.AnnotationKernelCheck: "strict"}
			backend.Spec.Runtime = runtime
			backend.Spec.Observation = &v1alpha1.ObservationSpec{ModelID: "lab/atlas-9b"}
			createBackend(t, backend)
			got := createDecided(t, newPod(namespace, "restricted"), forReal)
			if names := containerNames(&got.pod.Spec); got.outcome() != "wired" || len(names) != 3 {
				t.Errorf("outcome %q, containers %q; want an init container and a subscriber besides the engine", got.outcome(), names)
			}
		})
	}
}
