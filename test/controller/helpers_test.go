// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	typedv1alpha1 "inferencecache.io/inferencecache/pkg/generated/clientset/versioned/typed/inferencecache/v1alpha1"
)

// eventually waits until the check returns no error.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("not tried yet")
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, last)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "controller-"}}
	namespace, err := env.kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	must(t, err)
	// What is left would take nodes away from other tests.
	t.Cleanup(func() {
		_ = env.kube.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})
	})
	return namespace.Name
}

// subject is the backend of a test, in a namespace of its own.
type subject struct {
	*testing.T
	namespace, name string
}

type change func(*v1alpha1.CacheBackend)

// newBackend is a managed LMCache server for vLLM that does without KV events.
func newBackend(namespace, name string, changes ...change) *v1alpha1.CacheBackend {
	backend := &v1alpha1.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: map[string]string{v1alpha1.AnnotationRequireKVEvents: "false"},
		},
		Spec: v1alpha1.CacheBackendSpec{
			Runtime: v1alpha1.RuntimeVLLM, Type: v1alpha1.CacheTypeLMCache, RemoteStorage: managed(v1alpha1.StorageProviderLMCacheServer),
		},
	}
	for _, change := range changes {
		change(backend)
	}
	return backend
}

func managed(provider v1alpha1.StorageProvider) *v1alpha1.RemoteStorageSpec {
	return &v1alpha1.RemoteStorageSpec{Provider: provider, Ownership: v1alpha1.StorageOwnershipManaged}
}

func provider(provider v1alpha1.StorageProvider) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Spec.RemoteStorage = managed(provider)
		if provider == v1alpha1.StorageProviderRedis {
			backend.Spec.Runtime = v1alpha1.RuntimeSGLang
		}
	}
}

func deploymentKind(kind v1alpha1.DeploymentKind) change {
	return func(backend *v1alpha1.CacheBackend) { backend.Spec.DeploymentKind = kind }
}

func autoscaled(floor, ceiling int32) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Spec.Autoscaling = &v1alpha1.AutoscalingSpec{MinReplicas: &floor, MaxReplicas: ceiling}
	}
}

func waitsForKVEvents(backend *v1alpha1.CacheBackend) { backend.Annotations = nil }

// newSubject names a backend that does not exist yet.
func newSubject(t *testing.T) *subject {
	t.Helper()
	return &subject{T: t, namespace: newNamespace(t), name: "cache"}
}

// create makes the backend of a test.
func create(t *testing.T, changes ...change) *subject {
	t.Helper()
	s := newSubject(t)
	s.create(changes...)
	return s
}

func (s *subject) create(changes ...change) {
	s.Helper()
	_, err := s.backends().Create(s.Context(), newBackend(s.namespace, s.name, changes...), metav1.CreateOptions{})
	must(s.T, err)
}

func (s *subject) backends() typedv1alpha1.CacheBackendInterface {
	return env.inference.InferencecacheV1alpha1().CacheBackends(s.namespace)
}

func (s *subject) backend() *v1alpha1.CacheBackend {
	s.Helper()
	backend, err := s.backends().Get(s.Context(), s.name, metav1.GetOptions{})
	must(s.T, err)
	return backend
}

// edit changes the spec as a user does.
func (s *subject) edit(changes ...change) {
	s.Helper()
	eventually(s.T, "the backend is changed", func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, change := range changes {
			change(backend)
		}
		_, err = s.backends().Update(ctx, backend, metav1.UpdateOptions{})
		return err
	})
}

// seesKVEvent writes what the poller writes.
func (s *subject) seesKVEvent() {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"indexParticipation": v1alpha1.IndexParticipation{
		PrefixCount: 1, LastEventAt: new(metav1.Now()),
	}}})
	must(s.T, err)
	_, err = s.backends().Patch(s.Context(), s.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	must(s.T, err)
}

// waitReady waits for a Ready condition of the present generation, and returns the backend that has it.
func (s *subject) waitReady(status metav1.ConditionStatus, reason string) *v1alpha1.CacheBackend {
	s.Helper()
	var backend *v1alpha1.CacheBackend
	eventually(s.T, fmt.Sprintf("Ready is %s/%s", status, reason), func(ctx context.Context) (err error) {
		if backend, err = s.backends().Get(ctx, s.name, metav1.GetOptions{}); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(backend.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != status || ready.Reason != reason {
			return fmt.Errorf("the conditions are %+v", backend.Status.Conditions)
		}
		if reason != v1alpha1.ReasonWorkloadConflict && backend.Status.ObservedGeneration != backend.Generation {
			return fmt.Errorf("generation %d is observed, not %d", backend.Status.ObservedGeneration, backend.Generation)
		}
		return nil
	})
	return backend
}

func (s *subject) waitBackendReady() *v1alpha1.CacheBackend {
	s.Helper()
	return s.waitReady(metav1.ConditionTrue, v1alpha1.ReasonBackendReady)
}

// waitEvents waits until each of the reasons has been told once about the backend, and nothing else has.
func (s *subject) waitEvents(reasons ...string) {
	s.Helper()
	want := map[string]int{}
	for _, reason := range reasons {
		want[reason]++
	}
	uid := s.backend().UID
	eventually(s.T, fmt.Sprintf("the events are %v", reasons), func(ctx context.Context) error {
		list, err := env.kube.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, event := range list.Items {
			if event.Regarding.UID == uid {
				got[event.Reason]++
				if event.Series != nil { // It was told again.
					got[event.Reason]++
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
}

// waitObjects waits until the named kinds, and of the others none, have an object with the backend's name.
func (s *subject) waitObjects(kinds ...string) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("the objects are %v", kinds), func(ctx context.Context) error {
		wanted := map[string]bool{}
		for _, kind := range kinds {
			wanted[kind] = true
		}
		for _, kind := range []string{"Deployment", "StatefulSet", "Service", "HorizontalPodAutoscaler"} {
			_, err := s.read(ctx, kind)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if exists := err == nil; exists != wanted[kind] {
				return fmt.Errorf("%s exists: %t", kind, exists)
			}
		}
		return nil
	})
}

// read reads the object of a kind with the backend's name.
func (s *subject) read(ctx context.Context, kind string) (metav1.Object, error) {
	switch options := (metav1.GetOptions{}); kind {
	case "Deployment":
		return env.kube.AppsV1().Deployments(s.namespace).Get(ctx, s.name, options)
	case "StatefulSet":
		return env.kube.AppsV1().StatefulSets(s.namespace).Get(ctx, s.name, options)
	case "Service":
		return env.kube.CoreV1().Services(s.namespace).Get(ctx, s.name, options)
	default:
		return env.kube.AutoscalingV2().HorizontalPodAutoscalers(s.namespace).Get(ctx, s.name, options)
	}
}

func (s *subject) object(kind string) metav1.Object {
	s.Helper()
	object, err := s.read(s.Context(), kind)
	must(s.T, err)
	return object
}

func (s *subject) kubectl(args ...string) {
	s.Helper()
	_, _, err := env.Kubectl(s.Context(), append([]string{"-n", s.namespace}, args...)...)
	must(s.T, err)
}
