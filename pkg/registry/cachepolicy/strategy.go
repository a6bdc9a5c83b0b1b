// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cachepolicy stores CachePolicies.
package cachepolicy

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
	policy := obj.(*inferencecache.CachePolicy)
	policy.Status = inferencecache.CachePolicyStatus{}
	policy.Generation = 1
}

func (strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	policy, oldPolicy := obj.(*inferencecache.CachePolicy), old.(*inferencecache.CachePolicy)
	oldPolicy.Status.DeepCopyInto(&policy.Status)
	policy.Generation = resource.NextGeneration(oldPolicy.Generation, policy.Spec, oldPolicy.Spec)
}

// Validate refuses a second policy of a namespace together with everything else that is
// wrong. When the namespace cannot be listed the write is refused too.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	policy := obj.(*inferencecache.CachePolicy)
	errs := append(resource.ValidateName(policy), validation.ValidateCachePolicy(policy)...)
	list, err := s.siblings(ctx, policy.Namespace)
	if err != nil {
		return resource.LimitErrors(append(errs, field.InternalError(field.NewPath("metadata", "name"), err)))
	}
	var names []string
	for _, sibling := range list.(*inferencecache.CachePolicyList).Items {
		names = append(names, sibling.Name)
	}
	return resource.LimitErrors(append(errs, validation.ValidateSolePolicy(policy.Name, names)...))
}

// ValidateUpdate does not look at siblings: a policy that is there may be changed.
func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return resource.LimitErrors(validation.Introduced(
		validation.ValidateCachePolicy(obj.(*inferencecache.CachePolicy)),
		validation.ValidateCachePolicy(old.(*inferencecache.CachePolicy)),
	))
}

type statusStrategy struct {
	strategy
	resource.StatusOnly
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	policy, oldPolicy := obj.(*inferencecache.CachePolicy), old.(*inferencecache.CachePolicy)
	oldPolicy.Spec.DeepCopyInto(&policy.Spec)
	metav1.ResetObjectMetaForStatus(policy, oldPolicy)
}

// ValidateUpdate looks at the status alone.
func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return resource.LimitErrors(validation.ValidateCachePolicyStatusUpdate(
		obj.(*inferencecache.CachePolicy), old.(*inferencecache.CachePolicy)))
}
