// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"fmt"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// render returns the objects that run the tier of a managed backend.
func render(backend *v1alpha1.CacheBackend) (*storage.Rendered, error) {
	remote := backend.Spec.RemoteStorage
	provider, known := storage.Lookup(remote.Provider)
	if !known {
		return nil, fmt.Errorf("provider %q is not known", remote.Provider)
	}
	return storage.Render(provider, storage.Request{
		Namespace:   backend.Namespace,
		Name:        backend.Name,
		UID:         backend.UID,
		Usage:       usage(backend),
		Kind:        workloadKind(backend),
		Replicas:    backend.Spec.Replicas,
		Autoscaling: autoscaling(backend.Spec.Autoscaling),
		Server:      server(remote),
		Template:    template(backend.Spec.Template),
	})
}

// singleton says whether two servers of the backend's tier must never run at once.
func singleton(backend *v1alpha1.CacheBackend) bool {
	provider, known := storage.Lookup(backend.Spec.RemoteStorage.Provider)
	return known && provider.Singleton(usage(backend))
}

// usage is that of a managed backend, the only one that has a tier to be rendered.
func usage(backend *v1alpha1.CacheBackend) storage.Usage {
	return storage.Usage{
		Runtime:   backend.Spec.Runtime,
		Type:      backend.Spec.Type,
		Mode:      integrationMode(backend),
		Ownership: v1alpha1.StorageOwnershipManaged,
	}
}

func autoscaling(spec *v1alpha1.AutoscalingSpec) *storage.Autoscaling {
	if spec == nil {
		return nil
	}
	return &storage.Autoscaling{
		MinReplicas:                 spec.MinReplicas,
		MaxReplicas:                 spec.MaxReplicas,
		TargetCPUUtilizationPercent: spec.TargetCPUUtilizationPercent,
	}
}

// server takes the block of the provider that is selected; a block of another one may be
// stored beside it.
func server(remote *v1alpha1.RemoteStorageSpec) storage.Server {
	switch {
	case remote.Provider == v1alpha1.StorageProviderRedis && remote.Redis != nil:
		return storage.Server{Image: remote.Redis.Image, Resources: remote.Redis.Resources}
	case remote.Provider == v1alpha1.StorageProviderLMCacheServer && remote.LMCacheServer != nil:
		block := remote.LMCacheServer
		return storage.Server{Image: block.Image, Command: block.Command, Resources: block.Resources}
	case remote.Provider == v1alpha1.StorageProviderMooncake && remote.Mooncake != nil:
		block := remote.Mooncake
		return storage.Server{Image: block.Image, Command: block.Command, Resources: block.Resources}
	default:
		return storage.Server{}
	}
}

func template(spec *v1alpha1.PodTemplateOverrides) *storage.Template {
	if spec == nil {
		return nil
	}
	return &storage.Template{
		NodeSelector:                  spec.NodeSelector,
		Affinity:                      spec.Affinity,
		Tolerations:                   spec.Tolerations,
		TopologySpreadConstraints:     spec.TopologySpreadConstraints,
		ImagePullSecrets:              spec.ImagePullSecrets,
		ServiceAccountName:            spec.ServiceAccountName,
		SecurityContext:               spec.SecurityContext,
		PriorityClassName:             spec.PriorityClassName,
		SchedulerName:                 spec.SchedulerName,
		RuntimeClassName:              spec.RuntimeClassName,
		TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
	}
}
