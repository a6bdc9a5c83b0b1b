// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cachebackend stores CacheBackends.
package cachebackend

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/validation"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

type strategy struct {
	resource.Strategy
	clock clock.PassiveClock
}

func (s strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	backend := obj.(*inferencecache.CacheBackend)
	backend.Status = inferencecache.CacheBackendStatus{}
	backend.Generation = 1
	stampFloor(backend, nil)
	settleStatus(backend, nil, s.clock.Now())
}

// PrepareForUpdate follows a fixed order: the external verdict carries the generation,
// and the generation depends on the stamped floor.
func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	backend, oldBackend := obj.(*inferencecache.CacheBackend), old.(*inferencecache.CacheBackend)
	oldBackend.Status.DeepCopyInto(&backend.Status)
	stampFloor(backend, oldBackend)
	backend.Generation = resource.NextGeneration(oldBackend.Generation, backend.Spec, oldBackend.Spec)
	settleStatus(backend, oldBackend, s.clock.Now())
}

func (strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	backend := obj.(*inferencecache.CacheBackend)
	return resource.LimitErrors(append(resource.ValidateName(backend), validation.ValidateCacheBackend(backend)...))
}

func (strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return resource.LimitErrors(validation.Introduced(
		validation.ValidateCacheBackend(obj.(*inferencecache.CacheBackend)),
		validation.ValidateCacheBackend(old.(*inferencecache.CacheBackend)),
	))
}

func (strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return validation.WarningsForCacheBackendCreate(obj.(*inferencecache.CacheBackend))
}

func (strategy) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	return validation.WarningsForCacheBackend(obj.(*inferencecache.CacheBackend))
}

// stampFloor fills in autoscaling.minReplicas. It happens here and not at decoding, which
// also runs on reads and on the bodies of replacements and would hide that the floor was
// left out: the floor follows replicas only when autoscaling first appears, and a write
// that leaves it out keeps the stored one.
func stampFloor(backend, old *inferencecache.CacheBackend) {
	autoscaling := backend.Spec.Autoscaling
	if autoscaling == nil || autoscaling.MinReplicas != nil {
		return
	}
	if old != nil && old.Spec.Autoscaling != nil && old.Spec.Autoscaling.MinReplicas != nil {
		autoscaling.MinReplicas = new(*old.Spec.Autoscaling.MinReplicas)
		return
	}
	if replicas := backend.Spec.Replicas; replicas != nil && *replicas >= 1 {
		autoscaling.MinReplicas = new(*replicas)
	}
}

type statusStrategy struct {
	strategy
	resource.StatusOnly
}

func (s statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	backend, oldBackend := obj.(*inferencecache.CacheBackend), old.(*inferencecache.CacheBackend)
	oldBackend.Spec.DeepCopyInto(&backend.Spec)
	metav1.ResetObjectMetaForStatus(backend, oldBackend)
	if latch := oldBackend.Status.FirstKVEventObservedAt; latch != nil {
		backend.Status.FirstKVEventObservedAt = latch.DeepCopy()
	}
	settleStatus(backend, oldBackend, s.clock.Now())
}

// ValidateUpdate looks at the status alone: an object whose spec today's rules would
// refuse still takes a status.
func (statusStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	return resource.LimitErrors(validation.ValidateCacheBackendStatusUpdate(
		obj.(*inferencecache.CacheBackend), old.(*inferencecache.CacheBackend)))
}

// WarningsOnUpdate returns none: a status write is not where a user reads about the spec.
func (statusStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
