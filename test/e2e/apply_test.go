// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	v1alpha1ac "inferencecache.io/inferencecache/pkg/generated/applyconfiguration/inferencecache/v1alpha1"
)

// literalDefaults are the fields that the server fills in from the object alone.
var literalDefaults = [][]any{
	{"spec", "type"},
	{"spec", "deploymentKind"},
	{"spec", "replicas"},
	{"spec", "integration", "mode"},
	{"spec", "integration", "role"},
	{"spec", "integration", "failOpen"},
	{"spec", "observation", "firstEventTimeout"},
}

var (
	replicas = []any{"spec", "replicas"}
	floor    = []any{"spec", "autoscaling", "minReplicas"}
)

// owners returns who owns a field, as manager/operation or manager/operation/subresource.
func owners(t *testing.T, object metav1.Object, field []any) []string {
	t.Helper()
	path := fieldpath.MakePathOrDie(field...)
	var found []string
	for _, entry := range object.GetManagedFields() {
		var set fieldpath.Set
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			t.Fatal(err)
		}
		if set.Has(path) {
			found = append(found, strings.Trim(entry.Manager+"/"+string(entry.Operation)+"/"+entry.Subresource, "/"))
		}
	}
	slices.Sort(found)
	return found
}

func expectOwners(t *testing.T, object metav1.Object, field []any, want ...string) {
	t.Helper()
	if got := owners(t, object, field); !slices.Equal(got, want) {
		t.Errorf("%v: owned by %q, want %q", field, got, want)
	}
}

// withSpec returns the configuration of a backend named "a".
func withSpec(namespace string, spec *v1alpha1ac.CacheBackendSpecApplyConfiguration) *v1alpha1ac.CacheBackendApplyConfiguration {
	return v1alpha1ac.CacheBackend("a", namespace).WithSpec(spec.WithRuntime(v1alpha1.RuntimeVLLM))
}

func spec() *v1alpha1ac.CacheBackendSpecApplyConfiguration { return v1alpha1ac.CacheBackendSpec() }

// scaled returns a spec with autoscaling, for which a managed tier is needed.
func scaled(autoscaling *v1alpha1ac.AutoscalingSpecApplyConfiguration) *v1alpha1ac.CacheBackendSpecApplyConfiguration {
	tier := v1alpha1ac.RemoteStorageSpec().WithProvider(v1alpha1.StorageProviderLMCacheServer).WithOwnership(v1alpha1.StorageOwnershipManaged)
	return spec().WithRemoteStorage(tier).WithAutoscaling(autoscaling.WithMaxReplicas(5))
}

func as(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }

func apply(t *testing.T, configuration *v1alpha1ac.CacheBackendApplyConfiguration, options metav1.ApplyOptions) *v1alpha1.CacheBackend {
	t.Helper()
	backend, err := backendsIn(*configuration.GetNamespace()).Apply(t.Context(), configuration, options)
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

// TestOwnersOfDefaults checks who owns what the server fills in. Whoever writes whole objects owns the defaults in them;
// whoever applies owns only what it sent, so that the next applier may take the rest.
func TestOwnersOfDefaults(t *testing.T) {
	t.Parallel()
	t.Run("create and update", func(t *testing.T) {
		client := backendsIn(newNamespace(t))
		backend, err := client.Create(t.Context(), hostOnly("a"), metav1.CreateOptions{FieldManager: "creator"})
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range literalDefaults {
			expectOwners(t, backend, field, "creator/Update")
		}
		replacement := hostOnly("a")
		replacement.ResourceVersion = backend.ResourceVersion
		replacement.Spec.Replicas = new(int32(3))
		if backend, err = client.Update(t.Context(), replacement, metav1.UpdateOptions{FieldManager: "updater"}); err != nil {
			t.Fatal(err)
		}
		expectOwners(t, backend, replicas, "updater/Update")
		expectOwners(t, backend, []any{"spec", "type"}, "creator/Update")
	})
	t.Run("apply", func(t *testing.T) {
		namespace := newNamespace(t)
		backend := apply(t, withSpec(namespace, spec()), as("first"))
		expectOwners(t, backend, []any{"spec", "runtime"}, "first/Apply")
		for _, field := range literalDefaults {
			expectOwners(t, backend, field)
		}
		backend = apply(t, withSpec(namespace, spec().WithReplicas(3).WithDeploymentKind("StatefulSet")), as("second"))
		expectOwners(t, backend, replicas, "second/Apply")
		expectOwners(t, backend, []any{"spec", "runtime"}, "first/Apply", "second/Apply")
		if *backend.Spec.Replicas != 3 || backend.Spec.DeploymentKind != "StatefulSet" {
			t.Errorf("got %+v", backend.Spec)
		}
		// Applying again without a default keeps what another has set.
		backend = apply(t, withSpec(namespace, spec()), as("first"))
		if *backend.Spec.Replicas != 3 {
			t.Errorf("got %d replicas", *backend.Spec.Replicas)
		}
	})
}

// TestOwnersOfFloor checks that nobody owns the autoscaling floor that the server stamps.
func TestOwnersOfFloor(t *testing.T) {
	t.Parallel()
	t.Run("create", func(t *testing.T) {
		backend := managed("a")
		backend.Spec.Replicas = new(int32(2))
		backend.Spec.Autoscaling = &v1alpha1.AutoscalingSpec{MaxReplicas: 5}
		backend = createBackend(t, newNamespace(t), backend)
		expectOwners(t, backend, floor)
		if got := backend.Spec.Autoscaling.MinReplicas; got == nil || *got != 2 {
			t.Errorf("got floor %v", got)
		}
	})
	t.Run("apply", func(t *testing.T) {
		namespace := newNamespace(t)
		backend := apply(t, withSpec(namespace, scaled(v1alpha1ac.AutoscalingSpec()).WithReplicas(2)), as("first"))
		expectOwners(t, backend, floor)
		// Another one takes it without a conflict, and releases it without an effect on its value.
		backend = apply(t, withSpec(namespace, scaled(v1alpha1ac.AutoscalingSpec().WithMinReplicas(4))), as("second"))
		expectOwners(t, backend, floor, "second/Apply")
		backend = apply(t, withSpec(namespace, scaled(v1alpha1ac.AutoscalingSpec())), as("second"))
		expectOwners(t, backend, floor)
		if got := backend.Spec.Autoscaling.MinReplicas; got == nil || *got != 4 {
			t.Errorf("got floor %v, want the 4 from before", got)
		}
		// Neither does applying other replicas move it.
		backend = apply(t, withSpec(namespace, scaled(v1alpha1ac.AutoscalingSpec()).WithReplicas(3)), as("first"))
		if got := backend.Spec.Autoscaling.MinReplicas; got == nil || *got != 4 {
			t.Errorf("got floor %v after a change of replicas, want 4", got)
		}
	})
}

// TestApplyConflict checks that an applier hears whose field it is about to change, and gets it by force only.
func TestApplyConflict(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	apply(t, withSpec(namespace, spec().WithReplicas(2)), as("first"))
	_, err := backendsIn(namespace).Apply(t.Context(), withSpec(namespace, spec().WithReplicas(3)), as("second"))
	if !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	want := []metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "first"`, Field: ".spec.replicas"}}
	if diff := cmp.Diff(want, err.(apierrors.APIStatus).Status().Details.Causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}

	backend := apply(t, withSpec(namespace, spec().WithReplicas(3)), metav1.ApplyOptions{FieldManager: "second", Force: true})
	expectOwners(t, backend, replicas, "second/Apply")
	if *backend.Spec.Replicas != 3 {
		t.Errorf("got %d replicas", *backend.Spec.Replicas)
	}
	// The same value is no conflict and is owned together.
	backend = apply(t, withSpec(namespace, spec().WithReplicas(3)), as("first"))
	expectOwners(t, backend, replicas, "first/Apply", "second/Apply")
}

// TestApplyDropsFields checks what becomes of a field that its only applier no longer sends.
func TestApplyDropsFields(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	full := spec().WithReplicas(3).WithDeploymentKind(v1alpha1.DeploymentKindStatefulSet).
		WithIntegration(v1alpha1ac.IntegrationSpec().WithRole(v1alpha1.IntegrationRoleReadOnly).WithFailOpen(false)).
		WithLMCache(v1alpha1ac.LMCacheSpec().WithChunkSizeTokens(64).WithRemoteSerde("naive"))
	apply(t, withSpec(namespace, full), as("first"))
	apply(t, withSpec(namespace, spec().WithLMCache(v1alpha1ac.LMCacheSpec().WithRemoteSerde("naive"))), as("second"))

	backend := apply(t, withSpec(namespace, spec()), as("first"))
	got := backend.Spec
	if *got.Replicas != 1 || got.DeploymentKind != v1alpha1.DeploymentKindDeployment ||
		got.Integration.Role != v1alpha1.IntegrationRoleReadWrite || !*got.Integration.FailOpen {
		t.Errorf("fields with a default do not get it back: %+v, %+v", got, got.Integration)
	}
	for _, field := range literalDefaults {
		expectOwners(t, backend, field)
	}
	if got.LMCache == nil || got.LMCache.ChunkSizeTokens != nil || got.LMCache.RemoteSerde != "naive" {
		t.Errorf("got lmCache %+v, want just what the second applier owns", got.LMCache)
	}
	if backend.Generation != 2 {
		t.Errorf("generation %d, want 2: the second apply changed nothing", backend.Generation)
	}
}

// TestApplyStatus checks that controllers can share one status, condition by condition, and that neither side of an
// object owns or changes the other.
func TestApplyStatus(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	created := apply(t, withSpec(namespace, spec().WithReplicas(2)), as("user"))
	applyStatus := func(manager string, status *v1alpha1ac.CacheBackendStatusApplyConfiguration, more func(*v1alpha1ac.CacheBackendApplyConfiguration)) *v1alpha1.CacheBackend {
		t.Helper()
		configuration := v1alpha1ac.CacheBackend("a", namespace).WithStatus(status)
		if more != nil {
			more(configuration)
		}
		backend, err := backendsIn(namespace).ApplyStatus(t.Context(), configuration, as(manager))
		if err != nil {
			t.Fatal(err)
		}
		return backend
	}
	applyStatus("prober", v1alpha1ac.CacheBackendStatus().WithConditions(condition("FunctionalProbeOK", "True")), nil)
	backend := applyStatus("controller", v1alpha1ac.CacheBackendStatus().WithMatchedEnginePods(0).WithConditions(condition("Ready", "False")),
		func(c *v1alpha1ac.CacheBackendApplyConfiguration) {
			c.WithLabels(map[string]string{"forged": "yes"}).WithSpec(spec().WithReplicas(7))
		})
	if len(backend.Status.Conditions) != 2 || backend.Status.MatchedEnginePods == nil {
		t.Errorf("status is not merged: %+v", backend.Status)
	}
	ready := []any{"status", "conditions", fieldpath.KeyByFields("type", "Ready"), "status"}
	expectOwners(t, backend, ready, "controller/Apply/status")
	expectOwners(t, backend, replicas, "user/Apply")
	expectOwners(t, backend, []any{"metadata", "labels", "forged"})
	if *backend.Spec.Replicas != 2 || len(backend.Labels) != 0 || backend.Generation != created.Generation {
		t.Errorf("an applied status changes more: %+v", backend)
	}

	// One controller drops its condition; that of the other stays.
	backend = applyStatus("prober", v1alpha1ac.CacheBackendStatus(), nil)
	if apimeta.FindStatusCondition(backend.Status.Conditions, "FunctionalProbeOK") != nil || len(backend.Status.Conditions) != 1 {
		t.Errorf("got conditions %+v", backend.Status.Conditions)
	}
	// A user who sends a status neither writes nor owns it.
	forged := withSpec(namespace, spec().WithReplicas(2)).WithStatus(v1alpha1ac.CacheBackendStatus().WithMatchedEnginePods(9))
	backend = apply(t, forged, as("user"))
	expectOwners(t, backend, []any{"status", "matchedEnginePods"}, "controller/Apply/status")
	if *backend.Status.MatchedEnginePods != 0 {
		t.Errorf("a user has set status.matchedEnginePods to %d", *backend.Status.MatchedEnginePods)
	}
}

func condition(conditionType, status string) *metav1ac.ConditionApplyConfiguration {
	return metav1ac.Condition().WithType(conditionType).WithStatus(metav1.ConditionStatus(status)).
		WithReason("Tested").WithMessage("").WithLastTransitionTime(metav1.Now().Rfc3339Copy())
}

// TestExtract checks the cycle of a program that applies: extract what it owns, change that, apply it.
func TestExtract(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	selector := v1alpha1ac.EngineSelector().WithMatchLabels(map[string]string{"app": "a"})
	sent := withSpec(namespace, spec().WithEngineSelector(selector).WithReplicas(2)).WithLabels(map[string]string{"team": "kv"})
	backend := apply(t, sent, as("program"))
	extracted, err := v1alpha1ac.ExtractCacheBackend(backend, "program")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, extracted); diff != "" {
		t.Errorf("extracted (-sent +got):\n%s", diff)
	}

	extracted.Spec.WithReplicas(4)
	extracted.Spec.EngineSelector = nil
	backend = apply(t, extracted, as("program"))
	if *backend.Spec.Replicas != 4 || backend.Spec.EngineSelector != nil || backend.Labels["team"] != "kv" {
		t.Errorf("got labels %v and spec %+v", backend.Labels, backend.Spec)
	}

	status := v1alpha1ac.CacheBackend("a", namespace).WithStatus(v1alpha1ac.CacheBackendStatus().WithMatchedEnginePods(3))
	if backend, err = backendsIn(namespace).ApplyStatus(t.Context(), status, as("program")); err != nil {
		t.Fatal(err)
	}
	extracted, err = v1alpha1ac.ExtractCacheBackendStatus(backend, "program")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(status, extracted); diff != "" {
		t.Errorf("extracted status (-sent +got):\n%s", diff)
	}
}
