// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/install"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/validation"
	"inferencecache.io/inferencecache/test/admissioncases"
)

// TestGoldenCases holds the handwritten and the generated rules together to the golden
// cases: neither may repeat or miss what the other says.
func TestGoldenCases(t *testing.T) {
	t.Parallel()
	cases, err := admissioncases.Load(filepath.Join("..", "..", "..", "..", "testdata", "admission-cases"))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	for _, tt := range cases {
		t.Run(tt.Name, func(t *testing.T) {
			t.Parallel()
			a := admission{t: t, scheme: scheme}
			errs, warnings := a.admit(tt)
			var causes []metav1.StatusCause
			seen := map[string]bool{}
			for _, err := range errs {
				causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(err.Type), Field: err.Field})
				if seen[err.Error()] {
					t.Errorf("reported twice: %v", err)
				}
				seen[err.Error()] = true
			}
			if err := admissioncases.CheckErrors(tt.Expect.Errors, causes); err != nil {
				t.Errorf("%v\nall errors: %v", err, errs.ToAggregate())
			}
			if tt.Expect.Allowed {
				if err := admissioncases.CheckWarnings(tt.Expect.Warnings, warnings); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// admission does the part of a strategy's work that validation depends on.
type admission struct {
	t      *testing.T
	scheme *runtime.Scheme
}

func (a admission) admit(c admissioncases.Case) (field.ErrorList, []string) {
	object := a.decode(c.Object)
	var old runtime.Object
	if c.Old != nil {
		old = a.decode(c.Old)
	}
	stampFloor(object, old)
	errs := validate(object)
	if old != nil {
		errs = validation.Introduced(errs, validate(old))
	}
	errs = append(errs, a.siblings(object, old, c.Existing)...)
	errs = append(errs, a.declarative(object, old)...)
	var warnings []string
	if backend, ok := object.(*inferencecache.CacheBackend); ok {
		if old == nil {
			warnings = validation.WarningsForCacheBackendCreate(backend)
		} else {
			warnings = validation.WarningsForCacheBackend(backend)
		}
	}
	return errs, warnings
}

// decode fills in the constant defaults too.
func (a admission) decode(body *unstructured.Unstructured) runtime.Object {
	a.t.Helper()
	data, err := body.MarshalJSON()
	if err != nil {
		a.t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(a.scheme)
	object, err := runtime.Decode(codecs.UniversalDecoder(inferencecache.SchemeGroupVersion), data)
	if err != nil {
		a.t.Fatal(err)
	}
	return object
}

func validate(object runtime.Object) field.ErrorList {
	switch o := object.(type) {
	case *inferencecache.CacheBackend:
		return validation.ValidateCacheBackend(o)
	case *inferencecache.CachePolicy:
		return validation.ValidateCachePolicy(o)
	case *inferencecache.CacheTenant:
		return validation.ValidateCacheTenant(o)
	}
	return nil
}

func (a admission) siblings(object, old runtime.Object, existing []unstructured.Unstructured) field.ErrorList {
	switch o := object.(type) {
	case *inferencecache.CachePolicy:
		if old != nil {
			return nil
		}
		var names []string
		for _, other := range existing {
			if other.GetKind() == "CachePolicy" && other.GetNamespace() == o.Namespace {
				names = append(names, other.GetName())
			}
		}
		return validation.ValidateSolePolicy(o.Name, names)
	case *inferencecache.CacheTenant:
		if old != nil && old.(*inferencecache.CacheTenant).Spec.TenantID == o.Spec.TenantID {
			return nil
		}
		var tenants []validation.Tenant
		for _, other := range existing {
			if other.GetKind() == "CacheTenant" && other.GetNamespace() == o.Namespace {
				tenant := a.decode(&other).(*inferencecache.CacheTenant)
				tenants = append(tenants, validation.Tenant{Name: tenant.Name, TenantID: tenant.Spec.TenantID})
			}
		}
		return validation.ValidateUniqueTenant(validation.Tenant{Name: o.Name, TenantID: o.Spec.TenantID}, tenants)
	}
	return nil
}

func (a admission) declarative(object, old runtime.Object) field.ErrorList {
	a.t.Helper()
	served := a.served(object)
	if old == nil {
		return a.scheme.Validate(a.t.Context(), nil, served)
	}
	return a.scheme.ValidateUpdate(a.t.Context(), nil, served, a.served(old))
}

func (a admission) served(object runtime.Object) runtime.Object {
	a.t.Helper()
	served, err := a.scheme.ConvertToVersion(object, v1alpha1.APIVersion)
	if err != nil {
		a.t.Fatal(err)
	}
	return served
}

// stampFloor does what the strategy does before validation.
func stampFloor(object, old runtime.Object) {
	backend, ok := object.(*inferencecache.CacheBackend)
	if !ok || backend.Spec.Autoscaling == nil || backend.Spec.Autoscaling.MinReplicas != nil {
		return
	}
	if stored, ok := old.(*inferencecache.CacheBackend); ok && stored.Spec.Autoscaling != nil &&
		stored.Spec.Autoscaling.MinReplicas != nil {
		backend.Spec.Autoscaling.MinReplicas = new(*stored.Spec.Autoscaling.MinReplicas)
		return
	}
	if *backend.Spec.Replicas >= 1 {
		backend.Spec.Autoscaling.MinReplicas = new(*backend.Spec.Replicas)
	}
}
