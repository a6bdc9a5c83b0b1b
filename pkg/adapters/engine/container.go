// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// EngineContainer returns the container of the engine: the one with the name, or else the
// only one there is. It returns nil if that leaves no one. The subscriber is none of them:
// it is added to pods beside a lone engine, which must be found again.
func EngineContainer(spec *corev1.PodSpec, name string) *corev1.Container {
	var lone *corev1.Container
	others := 0
	for i := range spec.Containers {
		container := &spec.Containers[i]
		if container.Name == name {
			return container
		}
		if container.Name != ContainerSubscriber {
			lone = container
			others++
		}
	}
	if others != 1 {
		return nil
	}
	return lone
}

func indexContainer(containers []corev1.Container, name string) int {
	return slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
}

func hasContainer(containers []corev1.Container, name string) bool {
	return indexContainer(containers, name) >= 0
}

// putContainer replaces the container of the same name where it stands, or appends.
func putContainer(containers []corev1.Container, container corev1.Container) []corev1.Container {
	if i := indexContainer(containers, container.Name); i >= 0 {
		containers[i] = container
		return containers
	}
	return append(containers, container)
}
