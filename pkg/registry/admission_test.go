// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/admissioncases"
)

// TestAdmissionCases takes every case through the strategies and a real etcd.
func TestAdmissionCases(t *testing.T) {
	t.Parallel()
	cases, err := admissioncases.Load("../../testdata/admission-cases")
	if err != nil {
		t.Fatal(err)
	}
	env := newEnvironment(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			runCase(t, env.withPrefix(t, c.Name), c)
		})
	}
}

func runCase(t *testing.T, env *environment, c admissioncases.Case) {
	for _, existing := range c.Existing {
		env.plant(t, &existing)
	}
	if c.Old != nil {
		env.plant(t, c.Old)
	}
	recorder := &warnings{}
	ctx := env.requestContext(t, c.Object, recorder)
	object, err := env.write(ctx, t, c)

	if !c.Expect.Allowed {
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
			t.Fatalf("got error %v, want Invalid", err)
		}
		if err := admissioncases.CheckErrors(c.Expect.Errors, status.Status().Details.Causes); err != nil {
			t.Errorf("%v\n%s", err, status.Status().Message)
		}
		if len(recorder.texts) > 0 {
			t.Errorf("a refused write carries warnings: %q", recorder.texts)
		}
		return
	}
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if err := admissioncases.CheckWarnings(c.Expect.Warnings, recorder.texts); err != nil {
		t.Error(err)
	}
	if err := admissioncases.CheckDefaults(env.asServed(t, object), c.Expect.Defaults); err != nil {
		t.Error(err)
	}
}

// write sends the case's request to the storage of its kind, decoded as the server would.
func (e *environment) write(ctx context.Context, t *testing.T, c admissioncases.Case) (runtime.Object, error) {
	t.Helper()
	object := e.decode(t, c.Object)
	storage := e.storage(t, c.Object.GetKind())
	if c.Operation == admissioncases.Create {
		return storage.Create(ctx, object, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	}
	stored, err := storage.Get(ctx, c.Object.GetName(), &metav1.GetOptions{})
	if err != nil {
		t.Fatalf("reading the stored object: %v", err)
	}
	replacement, previous := object.(metav1.Object), stored.(metav1.Object)
	replacement.SetResourceVersion(previous.GetResourceVersion())
	replacement.SetUID(previous.GetUID())
	updated, _, err := storage.Update(ctx, c.Object.GetName(), rest.DefaultUpdatedObjectInfo(object),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return updated, err
}

// plant puts an object into etcd as it is, as an older server would have left it.
func (e *environment) plant(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	object = object.DeepCopy()
	object.SetUID(types.UID("uid-of-" + object.GetName()))
	object.SetGeneration(1)
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	key := path.Join(e.prefix, v1alpha1.GroupName, resourceOf[object.GetKind()], object.GetNamespace(), object.GetName())
	if _, err := e.client.Put(t.Context(), key, string(data)); err != nil {
		t.Fatal(err)
	}
}

func (e *environment) requestContext(t *testing.T, object *unstructured.Unstructured, recorder *warnings) context.Context {
	ctx := genericapirequest.WithNamespace(t.Context(), object.GetNamespace())
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true,
		APIGroup:          v1alpha1.GroupName,
		APIVersion:        v1alpha1.APIVersion.Version,
		Resource:          resourceOf[object.GetKind()],
		Namespace:         object.GetNamespace(),
	})
	return warning.WithWarningRecorder(ctx, recorder)
}

// warnings records the warnings of one request.
type warnings struct {
	texts []string
}

func (w *warnings) AddWarning(_, text string) { w.texts = append(w.texts, text) }
