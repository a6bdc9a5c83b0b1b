// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

var errRefused = errors.New("connection refused")

// recorder is a cache server that remembers which namespaces it was told policies for.
type recorder struct {
	err    error
	pushed [][]string
	// during runs while a push is under way.
	during func()
}

func (s *recorder) Push(_ context.Context, state *cacheserver.PolicyState) error {
	namespaces := []string{}
	for _, policy := range state.Policies {
		namespaces = append(namespaces, policy.Namespace)
	}
	if s.during != nil {
		s.during()
	}
	if s.err == nil {
		s.pushed = append(s.pushed, namespaces)
	}
	return s.err
}

type rig struct {
	*testing.T
	*Reconciler
	server *recorder
	store  client.Client
	// failList returns the error of a list, nil to let it through.
	failList func(list client.ObjectList) error
	logged   []string
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, server: &recorder{}, failList: func(client.ObjectList) error { return nil }}
	r.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := r.failList(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	r.Reconciler = newReconciler(r.store, r.server, 0)
	return r
}

// pass pushes once, and returns the time to the next push.
func (r *rig) pass() time.Duration {
	r.Helper()
	logger := funcr.New(func(_, line string) { r.logged = append(r.logged, line) }, funcr.Options{})
	result, err := r.Reconcile(logr.NewContext(r.Context(), logger), everything)
	if err != nil {
		r.Fatal(err)
	}
	return result.RequeueAfter
}

// TestFailedPush: it is tried again, less and less often, and is logged when it is news.
func TestFailedPush(t *testing.T) {
	t.Parallel()
	r := newRig(t, new(newPolicy("team-a", "p", v1alpha1.CachePolicySpec{})))
	r.server.err = errRefused
	var pauses []time.Duration
	for range 9 {
		pauses = append(pauses, r.pass())
	}
	if pauses[0] != minBackoff || pauses[1] != 2*minBackoff || pauses[8] != DefaultInterval {
		t.Errorf("the pauses are %v", pauses)
	}
	r.server.err = nil
	for range 3 {
		if got := r.pass(); got != DefaultInterval {
			t.Errorf("after a push the pause is %s", got)
		}
	}
	r.server.err = errRefused
	if got := r.pass(); got != minBackoff {
		t.Errorf("after a first failure the pause is %s", got)
	}
	if len(r.logged) != 3 || !strings.Contains(r.logged[0], errRefused.Error()) {
		t.Errorf("logged %v", r.logged)
	}
	if diff := cmp.Diff([][]string{{"team-a"}, {"team-a"}, {"team-a"}}, r.server.pushed); diff != "" {
		t.Errorf("pushed (-want +got):\n%s", diff)
	}
}

// TestUnreadState: half a state would lift what the other half says.
func TestUnreadState(t *testing.T) {
	t.Parallel()
	ofPolicies := func(list client.ObjectList) bool { _, ok := list.(*v1alpha1.CachePolicyList); return ok }
	ofTenants := func(list client.ObjectList) bool { _, ok := list.(*v1alpha1.CacheTenantList); return ok }
	notFound := apierrors.NewNotFound(v1alpha1.Resource("cachetenants"), "")
	noMatch := &apimeta.NoKindMatchError{GroupKind: v1alpha1.APIVersion.WithKind("CacheTenant").GroupKind()}
	for name, tt := range map[string]struct {
		of   func(client.ObjectList) bool
		err  error
		want time.Duration
	}{
		"no policies":            {ofPolicies, notFound, DefaultInterval},
		"no tenants":             {ofTenants, notFound, DefaultInterval},
		"no kind":                {ofTenants, noMatch, DefaultInterval},
		"policies not available": {ofPolicies, apierrors.NewServiceUnavailable("x"), minBackoff},
		"tenants not available":  {ofTenants, errRefused, minBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, new(newPolicy("team-a", "p", v1alpha1.CachePolicySpec{})))
			r.failList = func(list client.ObjectList) error {
				if tt.of(list) {
					return tt.err
				}
				return nil
			}
			if got := r.pass(); got != tt.want {
				t.Errorf("the pause is %s, want %s", got, tt.want)
			}
			if len(r.server.pushed) != 0 || len(r.logged) != 1 {
				t.Errorf("pushed %v, logged %v", r.server.pushed, r.logged)
			}
		})
	}
}

// TestNewerStateWins: a push that takes long must not replace what a later one has said.
func TestNewerStateWins(t *testing.T) {
	t.Parallel()
	r := newRig(t, new(newPolicy("team-a", "p", v1alpha1.CachePolicySpec{})))
	started, overtaken := make(chan struct{}), make(chan struct{})
	var second atomic.Bool
	r.server.during = func() {
		if second.Swap(true) {
			return
		}
		close(started)
		select {
		case <-overtaken:
		case <-time.After(100 * time.Millisecond): // Ample for a push that does not wait.
		}
	}
	push := func() {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Error(err)
		}
	}
	var pushes sync.WaitGroup
	pushes.Go(push)
	<-started
	if err := r.store.Create(t.Context(), new(newPolicy("team-b", "p", v1alpha1.CachePolicySpec{}))); err != nil {
		t.Fatal(err)
	}
	pushes.Go(func() {
		push()
		close(overtaken)
	})
	pushes.Wait()
	if diff := cmp.Diff([][]string{{"team-a"}, {"team-a", "team-b"}}, r.server.pushed); diff != "" {
		t.Errorf("pushed (-want +got):\n%s", diff)
	}
}

// TestPassWithoutTime: a pass whose time was over before it began is followed by another one.
func TestPassWithoutTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.failList = func(client.ObjectList) error { return ctx.Err() }
	result, err := r.Reconcile(ctx, everything)
	if err != nil || result.RequeueAfter <= 0 || len(r.server.pushed) != 0 {
		t.Errorf("%+v, %v, pushed %v", result, err, r.server.pushed)
	}
}
