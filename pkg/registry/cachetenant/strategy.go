// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cachetenant stores CacheTenants.
package cachetenant

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/validation"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

type strategy struct {
	resource.Strategy
	siblings resource.ListFunc
}

func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	tenant := obj.(*inferencecache.CacheTenant)
	tenant.Status = inferencecache.CacheTenantStatus{}
	tenant.Generation = 1
}

func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	tenant, oldTenant := obj.(*inferencecache.CacheTenant), old.(*inferencecache.CacheTenant)
	oldTenant.Status.DeepCopyInto(&tenant.Status)
	tenant.Generation = resource.NextGeneration(oldTenant.Generation, tenant.Spec, oldTenant.Spec)
}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	tenant := obj.(*inferencecache.CacheTenant)
	errs := append(resource.ValidateName(tenant), validation.ValidateCacheTenant(tenant)...)
	return resource.LimitErrors(append(errs, s.validateUnique(ctx, tenant)...))
}

// ValidateUpdate looks at siblings only when the identity changes: one that was taken
// twice already does not stand in the way of other changes.
func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	tenant, oldTenant := obj.(*inferencecache.CacheTenant), old.(*inferencecache.CacheTenant)
	errs := validation.Introduced(validation.ValidateCacheTenant(tenant), validation.ValidateCacheTenant(oldTenant))
	if tenant.Spec.TenantID != oldTenant.Spec.TenantID {
		errs = append(errs, s.validateUnique(ctx, tenant)...)
	}
	return resource.LimitErrors(errs)
}

// validateUnique refuses an identity that another tenant of the namespace has. When the
// namespace cannot be listed the write is refused too.
func (s strategy) validateUnique(ctx context.Context, tenant *inferencecache.CacheTenant) field.ErrorList {
	list, err := s.siblings(ctx, tenant.Namespace)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", "tenantID"), err)}
	}
	var tenants []validation.Tenant
	for _, sibling := range list.(*inferencecache.CacheTenantList).Items {
		tenants = append(tenants, validation.Tenant{Name: sibling.Name, TenantID: sibling.Spec.TenantID})
	}
	return validation.ValidateUniqueTenant(validation.Tenant{Name: tenant.Name, TenantID: tenant.Spec.TenantID}, tenants)
}

type statusStrategy struct {
	strategy
	resource.StatusOnly
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	tenant, oldTenant := obj.(*inferencecache.CacheTenant), old.(*inferencecache.CacheTenant)
	oldTenant.Spec.DeepCopyInto(&tenant.Spec)
	metav1.ResetObjectMetaForStatus(tenant, oldTenant)
}

// ValidateUpdate looks at the status alone.
func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return resource.LimitErrors(validation.ValidateCacheTenantStatusUpdate(
		obj.(*inferencecache.CacheTenant), old.(*inferencecache.CacheTenant)))
}
