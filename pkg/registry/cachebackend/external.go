// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/validation"
)

// notExternal are the conditions that have no meaning for an external tier: nobody but
// its operator can roll it out, probe it or judge its engines.
var notExternal = []string{
	v1alpha1.ConditionDegraded,
	v1alpha1.ConditionFunctionalProbeOK,
	v1alpha1.ConditionEngineKernelsHealthy,
	v1alpha1.ConditionT2Degraded,
	v1alpha1.ConditionEngineCompatibility,
}

// settleStatus makes the part of the status right that follows from the spec alone, in
// the write itself: an external tier's endpoint and conditions when the object is external,
// and nothing left over from one when it is so no longer. old is nil on create.
func settleStatus(backend, old *inferencecache.CacheBackend, now time.Time) {
	if isExternal(backend) {
		settleExternal(backend, old, now)
		return
	}
	if old == nil {
		return
	}
	if isExternal(old) {
		backend.Status.Endpoint = ""
		removeConditions(&backend.Status, v1alpha1.ConditionReady, v1alpha1.ConditionProgressing)
	}
	// The address of a tier that is about to go must not be given to another engine.
	if managesAnother(backend.Spec.RemoteStorage, old.Spec.RemoteStorage) {
		backend.Status.Endpoint = ""
	}
}

func isExternal(backend *inferencecache.CacheBackend) bool {
	return validation.Classify(backend).Path == adapters.External
}

func managesAnother(storage, old *inferencecache.RemoteStorageSpec) bool {
	if storage == nil || storage.Ownership != inferencecache.StorageOwnershipManaged {
		return false
	}
	return old == nil || old.Provider != storage.Provider || old.Ownership != storage.Ownership
}

func settleExternal(backend, old *inferencecache.CacheBackend, now time.Time) {
	storage := backend.Spec.RemoteStorage
	verdict := binding.JudgeExternal(v1alpha1.StorageProvider(storage.Provider), storage.Endpoint)

	ready := metav1.ConditionFalse
	if verdict.Ready {
		ready = metav1.ConditionTrue
	}
	status := &backend.Status
	status.Endpoint = verdict.Endpoint
	removeConditions(status, notExternal...)
	for _, computed := range []struct {
		conditionType string
		status        metav1.ConditionStatus
	}{
		{v1alpha1.ConditionReady, ready},
		{v1alpha1.ConditionProgressing, metav1.ConditionFalse},
	} {
		setCondition(status, old, metav1.Condition{
			Type:               computed.conditionType,
			Status:             computed.status,
			Reason:             verdict.Reason,
			Message:            verdict.Message,
			ObservedGeneration: backend.Generation,
			// The wire has whole seconds; a fraction would be gone at the next read.
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		})
	}
}

// setCondition replaces a condition of the status. Its transition time comes from the
// stored object where the status did not flip, whatever a client may have sent.
func setCondition(status *inferencecache.CacheBackendStatus, old *inferencecache.CacheBackend, condition metav1.Condition) {
	if old != nil {
		stored := apimeta.FindStatusCondition(old.Status.Conditions, condition.Type)
		if stored != nil && stored.Status == condition.Status {
			condition.LastTransitionTime = stored.LastTransitionTime
		}
	}
	if present := apimeta.FindStatusCondition(status.Conditions, condition.Type); present != nil {
		*present = condition
		return
	}
	status.Conditions = append(status.Conditions, condition)
}

func removeConditions(status *inferencecache.CacheBackendStatus, types ...string) {
	for _, conditionType := range types {
		apimeta.RemoveStatusCondition(&status.Conditions, conditionType)
	}
}
