// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultMemoryLimit is that of a tier whose backend says nothing about resources, 8Gi.
const defaultMemoryLimit = 8 << 30

// containerResources returns the resources of the container as the API server stores them.
func containerResources(block *corev1.ResourceRequirements, autoscaled bool) (corev1.ResourceRequirements, error) {
	if block == nil {
		block = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(defaultMemoryLimit, resource.BinarySI)},
		}
	}
	resources := *block.DeepCopy()
	if err := normalize(resources.Requests); err != nil {
		return resources, fmt.Errorf("requests: %w", err)
	}
	if err := normalize(resources.Limits); err != nil {
		return resources, fmt.Errorf("limits: %w", err)
	}
	if autoscaled {
		requestCPU(&resources)
	}
	return resources, nil
}

// requestCPU makes sure that there is a request for CPU: the autoscaler computes
// utilisation in percent of it.
func requestCPU(resources *corev1.ResourceRequirements) {
	if request := resources.Requests[corev1.ResourceCPU]; request.Sign() > 0 {
		return
	}
	request := resource.MustParse("250m")
	// A request above the limit would be refused.
	if limit, limited := resources.Limits[corev1.ResourceCPU]; limited && limit.Cmp(request) < 0 {
		request = limit.DeepCopy()
	}
	if resources.Requests == nil {
		resources.Requests = corev1.ResourceList{}
	}
	resources.Requests[corev1.ResourceCPU] = request
}

// maxMemory is how much of the memory limit a store may fill with data, in bytes: about
// 80 %, the rest is for its own overhead.
func maxMemory(resources corev1.ResourceRequirements) string {
	base := int64(defaultMemoryLimit)
	if limit := resources.Limits[corev1.ResourceMemory]; limit.Sign() > 0 {
		base = limit.Value()
	}
	return strconv.FormatInt(base-base/5, 10)
}

func normalize(list corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity, err := normalizeQuantity(list[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list[name] = quantity
	}
	return nil
}
