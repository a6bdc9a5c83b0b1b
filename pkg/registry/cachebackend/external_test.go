// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/install"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

var (
	created = time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)
	later   = created.Add(time.Hour)
)

// fixture is a strategy with a clock that the test moves.
type fixture struct {
	strategy strategy
	clock    *clocktesting.FakePassiveClock
}

func newFixture() fixture {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	clock := clocktesting.NewFakePassiveClock(created)
	return fixture{strategy: strategy{Strategy: resource.NewStrategy(scheme), clock: clock}, clock: clock}
}

func (f fixture) create(t *testing.T, mutate ...func(*inferencecache.CacheBackend)) *inferencecache.CacheBackend {
	backend := external("shard1.example.net:6379")
	for _, m := range mutate {
		m(backend)
	}
	f.strategy.PrepareForCreate(t.Context(), backend)
	return backend
}

func (f fixture) update(t *testing.T, old *inferencecache.CacheBackend, mutate func(*inferencecache.CacheBackend)) *inferencecache.CacheBackend {
	backend := old.DeepCopy()
	mutate(backend)
	f.strategy.PrepareForUpdate(t.Context(), backend, old)
	return backend
}

func (f fixture) updateStatus(t *testing.T, old *inferencecache.CacheBackend, mutate func(*inferencecache.CacheBackend)) *inferencecache.CacheBackend {
	backend := old.DeepCopy()
	mutate(backend)
	statusStrategy{strategy: f.strategy}.PrepareForUpdate(t.Context(), backend, old)
	return backend
}

// external returns an SGLang backend with an external Redis.
func external(endpoint string) *inferencecache.CacheBackend {
	return &inferencecache.CacheBackend{
		Spec: inferencecache.CacheBackendSpec{
			Runtime:     inferencecache.RuntimeSGLang,
			Type:        inferencecache.CacheTypeLMCache,
			Replicas:    new(int32(1)),
			Integration: &inferencecache.IntegrationSpec{Mode: inferencecache.IntegrationModeOffload, Role: inferencecache.IntegrationRoleReadWrite},
			RemoteStorage: &inferencecache.RemoteStorageSpec{
				Provider:  inferencecache.StorageProviderRedis,
				Ownership: inferencecache.StorageOwnershipExternal,
				Endpoint:  endpoint,
			},
		},
	}
}

func condition(conditionType string, status metav1.ConditionStatus, reason string, generation int64, at time.Time) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(at.Truncate(time.Second)),
	}
}

// checkStatus compares endpoint and conditions, messages aside.
func checkStatus(t *testing.T, backend *inferencecache.CacheBackend, endpoint string, conditions ...metav1.Condition) {
	t.Helper()
	if backend.Status.Endpoint != endpoint {
		t.Errorf("endpoint is %q, want %q", backend.Status.Endpoint, endpoint)
	}
	got := backend.DeepCopy().Status.Conditions
	for i := range got {
		got[i].Message = ""
	}
	if diff := cmp.Diff(conditions, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestExternalIsReadyInTheWrite(t *testing.T) {
	t.Parallel()
	f := newFixture()
	backend := f.create(t, func(b *inferencecache.CacheBackend) {
		b.Spec.RemoteStorage.Endpoint = "  shard1.example.net:6379 "
	})
	checkStatus(t, backend, "shard1.example.net:6379",
		condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonExternalEndpointAccepted, 1, created),
		condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointAccepted, 1, created))
}

// TestExternalUpdate takes an object through updates. An object that was stored under
// laxer rules may have an endpoint that admission would refuse.
func TestExternalUpdate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		mutate     func(*inferencecache.CacheBackend)
		endpoint   string
		conditions []metav1.Condition
	}{
		{
			name:     "a label changes nothing",
			mutate:   func(b *inferencecache.CacheBackend) { b.Labels = map[string]string{"a": "b"} },
			endpoint: "shard1.example.net:6379",
			conditions: []metav1.Condition{
				condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonExternalEndpointAccepted, 1, created),
				condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointAccepted, 1, created),
			},
		},
		{
			name:     "another endpoint carries the new generation and the old transition time",
			mutate:   func(b *inferencecache.CacheBackend) { b.Spec.RemoteStorage.Endpoint = "shard2:6379" },
			endpoint: "shard2:6379",
			conditions: []metav1.Condition{
				condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonExternalEndpointAccepted, 2, created),
				condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointAccepted, 2, created),
			},
		},
		{
			name:     "a malformed endpoint flips Ready",
			mutate:   func(b *inferencecache.CacheBackend) { b.Spec.RemoteStorage.Endpoint = "shard2" },
			endpoint: "shard2",
			conditions: []metav1.Condition{
				condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointInvalid, 2, later),
				condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointInvalid, 2, created),
			},
		},
		{
			name:     "a blank endpoint is missing",
			mutate:   func(b *inferencecache.CacheBackend) { b.Spec.RemoteStorage.Endpoint = " " },
			endpoint: "",
			conditions: []metav1.Condition{
				condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointMissing, 2, later),
				condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointMissing, 2, created),
			},
		},
		{
			name: "a managed tier has nothing of the external one",
			mutate: func(b *inferencecache.CacheBackend) {
				b.Spec.RemoteStorage.Endpoint = ""
				b.Spec.RemoteStorage.Ownership = inferencecache.StorageOwnershipManaged
			},
		},
		{
			name:   "host-only has nothing of the external one",
			mutate: func(b *inferencecache.CacheBackend) { b.Spec.RemoteStorage = nil },
		},
		{
			name: "events-only has nothing of the external one",
			mutate: func(b *inferencecache.CacheBackend) {
				b.Spec.Integration.Mode = inferencecache.IntegrationModeEventsOnly
			},
		},
		{
			name:   "a provider that the engine does not speak to has nothing of it",
			mutate: func(b *inferencecache.CacheBackend) { b.Spec.Runtime = inferencecache.RuntimeVLLM },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture()
			old := f.create(t)
			f.clock.SetTime(later)
			checkStatus(t, f.update(t, old, tt.mutate), tt.endpoint, tt.conditions...)
		})
	}
}

func TestEnteringExternalDropsWhatHasNoMeaningThere(t *testing.T) {
	t.Parallel()
	f := newFixture()
	old := f.create(t, func(b *inferencecache.CacheBackend) {
		b.Spec.RemoteStorage.Ownership = inferencecache.StorageOwnershipManaged
		b.Spec.RemoteStorage.Endpoint = ""
	})
	old.Status.Endpoint = "kv.test.svc:6379"
	old.Status.MatchedEnginePods = new(int32(3))
	foreign := condition("example.com/Checked", metav1.ConditionTrue, "Checked", 1, created)
	for _, conditionType := range append([]string{v1alpha1.ConditionReady}, notExternal...) {
		old.Status.Conditions = append(old.Status.Conditions, condition(conditionType, metav1.ConditionTrue, "Before", 1, created))
	}
	old.Status.Conditions = append(old.Status.Conditions, foreign)
	f.clock.SetTime(later)

	backend := f.update(t, old, func(b *inferencecache.CacheBackend) {
		b.Spec.RemoteStorage.Ownership = inferencecache.StorageOwnershipExternal
		b.Spec.RemoteStorage.Endpoint = "shard1:6379"
	})
	checkStatus(t, backend, "shard1:6379",
		condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonExternalEndpointAccepted, 2, created),
		foreign,
		condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointAccepted, 2, later))
	if pods := backend.Status.MatchedEnginePods; pods == nil || *pods != 3 {
		t.Errorf("matchedEnginePods is the controller's and became %v", pods)
	}
}

func TestAnotherManagedTierLosesItsAddress(t *testing.T) {
	t.Parallel()
	managed := func(b *inferencecache.CacheBackend) {
		b.Spec.Runtime = inferencecache.RuntimeVLLM
		b.Spec.RemoteStorage = &inferencecache.RemoteStorageSpec{
			Provider:  inferencecache.StorageProviderLMCacheServer,
			Ownership: inferencecache.StorageOwnershipManaged,
		}
	}
	f := newFixture()
	old := f.create(t, managed)
	old.Status.Endpoint = "kv.test.svc:65432"
	old.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "BackendReady", 1, created)}

	same := f.update(t, old, func(b *inferencecache.CacheBackend) { b.Spec.Replicas = new(int32(2)) })
	checkStatus(t, same, "kv.test.svc:65432", old.Status.Conditions...)

	other := f.update(t, old, func(b *inferencecache.CacheBackend) {
		b.Spec.RemoteStorage.Provider = inferencecache.StorageProviderMooncake
	})
	checkStatus(t, other, "", old.Status.Conditions...)
}

// TestStatusWriteCannotFalsifyExternal puts back what a client wrote over the computed
// part, transition times included.
func TestStatusWriteCannotFalsifyExternal(t *testing.T) {
	t.Parallel()
	f := newFixture()
	old := f.create(t)
	f.clock.SetTime(later)
	backend := f.updateStatus(t, old, func(b *inferencecache.CacheBackend) {
		b.Spec.RemoteStorage.Endpoint = "forged:1"
		b.Labels = map[string]string{"forged": "true"}
		b.Generation = 7
		b.Status.Endpoint = "forged:1"
		b.Status.ObservedGeneration = 1
		b.Status.Conditions = []metav1.Condition{
			condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, "Forged", 1, later),
			condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "Forged", 1, later),
		}
	})
	checkStatus(t, backend, "shard1.example.net:6379",
		condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonExternalEndpointAccepted, 1, created),
		condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonExternalEndpointAccepted, 1, created))
	if backend.Generation != 1 || backend.Labels != nil || backend.Status.ObservedGeneration != 1 {
		t.Errorf("generation %d, labels %v, observed generation %d", backend.Generation, backend.Labels, backend.Status.ObservedGeneration)
	}
	if diff := cmp.Diff(old.Spec, backend.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestFirstKVEventIsWrittenOnce(t *testing.T) {
	t.Parallel()
	f := newFixture()
	first := metav1.NewTime(created.Truncate(time.Second))
	latched := f.updateStatus(t, f.create(t), func(b *inferencecache.CacheBackend) {
		b.Status.FirstKVEventObservedAt = &first
	})
	for name, mutate := range map[string]func(*inferencecache.CacheBackend){
		"unset":        func(b *inferencecache.CacheBackend) { b.Status.FirstKVEventObservedAt = nil },
		"moved":        func(b *inferencecache.CacheBackend) { b.Status.FirstKVEventObservedAt = new(metav1.NewTime(later)) },
		"empty status": func(b *inferencecache.CacheBackend) { b.Status = inferencecache.CacheBackendStatus{} },
	} {
		for _, write := range []func(*testing.T, *inferencecache.CacheBackend, func(*inferencecache.CacheBackend)) *inferencecache.CacheBackend{f.update, f.updateStatus} {
			if got := write(t, latched, mutate).Status.FirstKVEventObservedAt; got == nil || !got.Equal(&first) {
				t.Errorf("%s: got %v, want %v", name, got, first)
			}
		}
	}
}

func TestGeneration(t *testing.T) {
	t.Parallel()
	f := newFixture()
	old := f.create(t, func(b *inferencecache.CacheBackend) { setCapacity(b, "1Gi") })
	if old.Generation != 1 {
		t.Errorf("a new object has generation %d", old.Generation)
	}
	for name, tt := range map[string]struct {
		mutate func(*inferencecache.CacheBackend)
		want   int64
	}{
		"annotation":                   {func(b *inferencecache.CacheBackend) { b.Annotations = map[string]string{"a": "b"} }, 1},
		"status":                       {func(b *inferencecache.CacheBackend) { b.Status.ObservedGeneration = 9 }, 1},
		"spec":                         {func(b *inferencecache.CacheBackend) { b.Spec.AllowCrossNamespace = true }, 2},
		"a quantity spelled otherwise": {func(b *inferencecache.CacheBackend) { setCapacity(b, "1024Mi") }, 1},
		"another quantity":             {func(b *inferencecache.CacheBackend) { setCapacity(b, "2Gi") }, 2},
		"a quantity without end":       {func(b *inferencecache.CacheBackend) { setCapacity(b, "1e2000000000") }, 2},
	} {
		if got := f.update(t, old, tt.mutate).Generation; got != tt.want {
			t.Errorf("%s: generation is %d, want %d", name, got, tt.want)
		}
	}
}

func setCapacity(backend *inferencecache.CacheBackend, quantity string) {
	backend.Spec.LMCache = &inferencecache.LMCacheSpec{
		HostMemory: &inferencecache.HostMemorySpec{Capacity: new(apiresource.MustParse(quantity))},
	}
}

func TestStatusOfNewObjectIsTheServers(t *testing.T) {
	t.Parallel()
	backend := newFixture().create(t, func(b *inferencecache.CacheBackend) {
		b.Spec.RemoteStorage = nil
		b.Status.Endpoint = "forged:1"
		b.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "Forged", 1, created)}
	})
	checkStatus(t, backend, "")
}
