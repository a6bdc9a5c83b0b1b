// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Classify says which path a backend is on. It is the one place where the controller
// translates a spec for the adapters.
func Classify(backend *v1alpha1.CacheBackend) adapters.Classification {
	request := adapters.Request{
		Runtime: backend.Spec.Runtime,
		Type:    backend.Spec.Type,
		Mode:    integrationMode(backend),
	}
	if remote := backend.Spec.RemoteStorage; remote != nil {
		request.RemoteStorage = &adapters.RemoteStorage{
			Provider:  remote.Provider,
			Ownership: remote.Ownership,
			Endpoint:  remote.Endpoint,
		}
	}
	return adapters.Classify(request)
}

func integrationMode(backend *v1alpha1.CacheBackend) v1alpha1.IntegrationMode {
	if backend.Spec.Integration == nil {
		return ""
	}
	return backend.Spec.Integration.Mode
}

// failOpen is the effective value of spec.integration.failOpen, for objects that were
// stored without defaults too.
func failOpen(backend *v1alpha1.CacheBackend) bool {
	integration := backend.Spec.Integration
	return integration == nil || integration.FailOpen == nil || *integration.FailOpen
}

// workloadKind is the kind of the backend's workload.
func workloadKind(backend *v1alpha1.CacheBackend) v1alpha1.DeploymentKind {
	if backend.Spec.DeploymentKind == v1alpha1.DeploymentKindStatefulSet {
		return v1alpha1.DeploymentKindStatefulSet
	}
	return v1alpha1.DeploymentKindDeployment
}
