// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolsevents "k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// rig runs passes against a store in memory, which neither defaults nor validates. The
// cluster's tests do the rest; here is what goes wrong.
type rig struct {
	*testing.T
	*Reconciler
	events *toolsevents.FakeRecorder
	// key names the backend that passes are about.
	key client.ObjectKey
	// fail returns the error of a request, nil to let it through.
	fail func(verb string, object any) error
	// requests are those that were let through or not, except reads.
	requests []string
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{
		v1alpha1.Install, corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme,
	} {
		if err := install(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{
		T: t, key: client.ObjectKey{Namespace: "ns1", Name: "cache"},
		events: toolsevents.NewFakeRecorder(100), fail: func(string, any) error { return nil },
	}
	try := func(verb string, object any) error {
		if verb != "get" && verb != "list" {
			r.requests = append(r.requests, fmt.Sprintf("%s %T", verb, object))
		}
		return r.fail(verb, object)
	}
	store := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.CacheBackend{}).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if err := try("get", object); err != nil {
					return err
				}
				return c.Get(ctx, key, object, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if err := try("list", list); err != nil {
					return err
				}
				return c.List(ctx, list, options...)
			},
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if err := try("create", object); err != nil {
					return err
				}
				return c.Create(ctx, object, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if err := try("patch", object); err != nil {
					return err
				}
				return c.Patch(ctx, object, patch, options...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				if err := try("delete", object); err != nil {
					return err
				}
				return c.Delete(ctx, object, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, _ string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				if err := try("patch status", object); err != nil {
					return err
				}
				return c.Status().Patch(ctx, object, patch, options...)
			},
		}).Build()
	r.Reconciler = &Reconciler{client: store, live: store, recorder: r.events, clock: clocktesting.NewFakePassiveClock(start)}
	return r
}

// heal lets all requests through again.
func (r *rig) heal() { r.fail = func(string, any) error { return nil } }

// pass runs one pass and returns its error and what it wrote.
func (r *rig) pass() (ctrl.Result, []string, error) {
	r.Helper()
	r.requests = nil
	result, err := r.Reconcile(r.Context(), ctrl.Request{NamespacedName: r.key})
	return result, r.requests, err
}

// settled is a rig whose backend has all its objects.
func settled(t *testing.T, changes ...change) *rig {
	t.Helper()
	r := newRig(t, newBackend(changes...))
	if _, _, err := r.pass(); err != nil {
		t.Fatal(err)
	}
	if _, written, err := r.pass(); err != nil || len(written) != 0 {
		t.Fatalf("the second pass writes %v and returns %v", written, err)
	}
	return r
}

func (r *rig) backend() *v1alpha1.CacheBackend {
	r.Helper()
	backend := &v1alpha1.CacheBackend{}
	if err := r.client.Get(r.Context(), r.key, backend); err != nil {
		r.Fatal(err)
	}
	return backend
}

// failing returns a function that fails the requests with a verb for objects of a type.
func failing[T any](verb string, err error) func(string, any) error {
	return func(got string, object any) error {
		if _, ok := object.(T); ok && got == verb {
			return err
		}
		return nil
	}
}

var errRefused = errors.New("connection refused")

// TestFailedReadEndsThePass: nothing may follow from what could not be read.
func TestFailedReadEndsThePass(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(string, any) error{
		"Deployment":  failing[*appsv1.Deployment]("get", errRefused),
		"StatefulSet": failing[*appsv1.StatefulSet]("get", errRefused),
		"Service":     failing[*corev1.Service]("get", errRefused),
		"HPA":         failing[*autoscalingv2.HorizontalPodAutoscaler]("get", errRefused),
	} {
		for path, changes := range map[string][]change{"managed": nil, "host-only": {hostOnly}} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				r := settled(t)
				edited := r.backend()
				for _, change := range changes {
					change(edited)
				}
				edited.Generation++
				if err := r.client.Update(t.Context(), edited); err != nil {
					t.Fatal(err)
				}
				before := r.backend().Status
				r.fail = fail
				_, written, err := r.pass()
				if !errors.Is(err, errRefused) {
					t.Errorf("the error is %v", err)
				}
				for _, request := range written {
					if strings.HasPrefix(request, "patch status") {
						t.Error("the status was written")
					}
				}
				r.heal()
				if after := r.backend().Status; after.Endpoint != before.Endpoint || after.ObservedGeneration != before.ObservedGeneration {
					t.Errorf("the status became %+v", after)
				}
			})
		}
	}
}

func TestFailedWritesAreTold(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "cache", errors.New("exceeded quota"))
	r := newRig(t, newBackend())
	r.fail = failing[*appsv1.Deployment]("create", quota)
	if _, _, err := r.pass(); !apierrors.IsForbidden(err) {
		t.Errorf("the error is %v", err)
	}
	status := r.backend().Status
	ready := find(&status, v1alpha1.ConditionReady)
	if ready.Reason != v1alpha1.ReasonRolloutInProgress || !strings.Contains(ready.Message, "exceeded quota") || status.ObservedGeneration != 0 {
		t.Errorf("the status is %+v", status)
	}
}

// TestNamespaceThatEnds: there will be nothing to create any more.
func TestNamespaceThatEnds(t *testing.T) {
	t.Parallel()
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "cache", errors.New("being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	r := newRig(t, newBackend())
	r.fail = failing[*appsv1.Deployment]("create", ending)
	if result, _, err := r.pass(); err != nil || result.RequeueAfter != steadyRequeue {
		t.Errorf("the result is %v, the error %v", result, err)
	}
}

// TestConflictIsReadAgain: somebody else was faster, once.
func TestConflictIsReadAgain(t *testing.T) {
	t.Parallel()
	r := settled(t)
	deployment := &appsv1.Deployment{}
	if err := r.client.Get(t.Context(), client.ObjectKey{Namespace: "ns1", Name: "cache"}, deployment); err != nil {
		t.Fatal(err)
	}
	deployment.Spec.Replicas = new(int32(3))
	if err := r.client.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	failed := false
	r.fail = func(verb string, object any) error {
		if _, ok := object.(*appsv1.Deployment); !ok || verb != "patch" || failed {
			return nil
		}
		failed = true
		return apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "cache", errors.New("changed"))
	}
	if _, written, err := r.pass(); err != nil || len(written) != 2 {
		t.Errorf("the pass writes %v and returns %v", written, err)
	}
}

// TestNoEventWithoutItsStatus: a decision on an old state is told neither in the status nor
// by an event.
func TestNoEventWithoutItsStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, newBackend(failOpenIs(false)))
	r.fail = failing[*v1alpha1.CacheBackend]("patch status",
		apierrors.NewConflict(v1alpha1.Resource("cachebackends"), "cache", errors.New("changed")))
	if result, _, err := r.pass(); err != nil || result.RequeueAfter != staleRequeue {
		t.Errorf("the result is %v, the error %v", result, err)
	}
	if len(r.events.Events) != 0 {
		t.Errorf("told %s", <-r.events.Events)
	}
	r.heal()
	if _, _, err := r.pass(); err != nil {
		t.Fatal(err)
	}
	if told := <-r.events.Events; !strings.Contains(told, v1alpha1.EventFailClosedEnabled) {
		t.Errorf("told %s", told)
	}
}

// TestDeletionEndsThePass: a backend that waits for its objects to go must not make new ones.
func TestDeletionEndsThePass(t *testing.T) {
	t.Parallel()
	r := newRig(t, newBackend(func(b *v1alpha1.CacheBackend) {
		b.Finalizers, b.DeletionTimestamp = []string{metav1.FinalizerDeleteDependents}, new(metav1.NewTime(start))
	}))
	if result, written, err := r.pass(); err != nil || len(written) != 0 || result.RequeueAfter != 0 {
		t.Errorf("the result is %v, written %v, the error %v", result, written, err)
	}
}

// TestSingletonStaysForAConflict: the one that serves does not go for one that cannot come.
func TestSingletonStaysForAConflict(t *testing.T) {
	t.Parallel()
	r := settled(t, managed("Mooncake"))
	theirs := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "cache"}}
	if err := r.client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	edited := r.backend()
	edited.Spec.DeploymentKind = v1alpha1.DeploymentKindStatefulSet
	if err := r.client.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	_, written, err := r.pass()
	if diff := cmp.Diff([]string{"patch status *v1alpha1.CacheBackend"}, written); diff != "" || err != nil {
		t.Errorf("the error is %v; writes (-want +got):\n%s", err, diff)
	}
	status := r.backend().Status
	if ready := find(&status, v1alpha1.ConditionReady); ready.Reason != v1alpha1.ReasonWorkloadConflict || status.Endpoint == "" {
		t.Errorf("the status is %+v", status)
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	backend := newBackend()
	controller := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{UID: uid, Controller: new(true)}}
	}
	ours := storage.SelectorLabels("cache")
	for name, tt := range map[string]struct {
		object metav1.ObjectMeta
		want   ownership
	}{
		"controlled":                  {metav1.ObjectMeta{OwnerReferences: controller(backend.UID)}, owned},
		"controlled by somebody else": {metav1.ObjectMeta{OwnerReferences: controller("other"), Labels: ours}, foreign},
		"left behind":                 {metav1.ObjectMeta{Labels: ours}, adoptable},
		"another backend's":           {metav1.ObjectMeta{Labels: storage.SelectorLabels("other")}, foreign},
		"a user's":                    {metav1.ObjectMeta{Labels: map[string]string{"app": "x"}}, foreign},
	} {
		if got := ownershipOf(&appsv1.Deployment{ObjectMeta: tt.object}, backend); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}
