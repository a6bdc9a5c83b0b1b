// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// The Mutate functions return a copy of a live object with what is ours brought to the
// desired state. What the API server, operators and other controllers own stays as it is.
// Doing it again changes nothing. The second result names the fields that differ and can
// only be changed by replacing the object; they are left as they are. Callers have made
// sure that the live object is the backend's, and that one of its kind is wanted.

// MutateDeployment is for the workload of a backend with deploymentKind Deployment.
func MutateDeployment(live *appsv1.Deployment, rendered *Rendered) (*appsv1.Deployment, []string) {
	desired := rendered.Deployment
	mutated := live.DeepCopy()
	ownMeta(&mutated.ObjectMeta, &desired.ObjectMeta)
	spec := &mutated.Spec
	spec.Replicas = new(rendered.Replicas.OnUpdate(live.Spec.Replicas))
	// Beside another type, the parameters of the old one would be refused. Those of the
	// right type are the API server's or an operator's.
	if spec.Strategy.Type != desired.Spec.Strategy.Type {
		spec.Strategy = *desired.Spec.Strategy.DeepCopy()
	}
	ownPod(&spec.Template.Spec, &desired.Spec.Template.Spec)
	var immutable []string
	if !apiequality.Semantic.DeepEqual(live.Spec.Selector, desired.Spec.Selector) {
		immutable = append(immutable, "spec.selector")
	}
	return mutated, immutable
}

// MutateStatefulSet is for the workload of a backend with deploymentKind StatefulSet.
func MutateStatefulSet(live *appsv1.StatefulSet, rendered *Rendered) (*appsv1.StatefulSet, []string) {
	desired := rendered.StatefulSet
	mutated := live.DeepCopy()
	ownMeta(&mutated.ObjectMeta, &desired.ObjectMeta)
	spec := &mutated.Spec
	spec.Replicas = new(rendered.Replicas.OnUpdate(live.Spec.Replicas))
	if spec.UpdateStrategy.Type != desired.Spec.UpdateStrategy.Type {
		spec.UpdateStrategy = *desired.Spec.UpdateStrategy.DeepCopy()
	}
	ownPod(&spec.Template.Spec, &desired.Spec.Template.Spec)
	var immutable []string
	if !apiequality.Semantic.DeepEqual(live.Spec.Selector, desired.Spec.Selector) {
		immutable = append(immutable, "spec.selector")
	}
	if live.Spec.ServiceName != desired.Spec.ServiceName {
		immutable = append(immutable, "spec.serviceName")
	}
	if live.Spec.PodManagementPolicy != desired.Spec.PodManagementPolicy {
		immutable = append(immutable, "spec.podManagementPolicy")
	}
	// Ours has none, and comparing the quantities in somebody's claims can take for ever.
	if len(live.Spec.VolumeClaimTemplates) != 0 {
		immutable = append(immutable, "spec.volumeClaimTemplates")
	}
	return mutated, immutable
}

// ownPod leaves the metadata of the template alone, where kubectl puts its restart
// annotation, and init containers, which admission may have added.
func ownPod(live, desired *corev1.PodSpec) {
	live.Containers = ownContainers(live.Containers, desired.Containers)
	live.Volumes = slices.Clone(desired.Volumes)
	live.HostNetwork = desired.HostNetwork
	live.DNSPolicy = desired.DNSPolicy
	copyOverridable(live, desired)
}

// ownContainers keeps of the live containers what is not ours to say. Containers with other
// names do not survive: after a change of provider they are the old one's.
func ownContainers(live, desired []corev1.Container) []corev1.Container {
	owned := make([]corev1.Container, 0, len(desired))
	for i := range desired {
		wanted := desired[i].DeepCopy()
		found := slices.IndexFunc(live, func(c corev1.Container) bool { return c.Name == wanted.Name })
		if found < 0 {
			owned = append(owned, *wanted)
			continue
		}
		container := live[found]
		container.Image = wanted.Image
		container.ImagePullPolicy = wanted.ImagePullPolicy
		container.Command = wanted.Command
		container.Args = wanted.Args
		container.Env = wanted.Env
		container.Ports = wanted.Ports
		container.Resources = wanted.Resources
		container.VolumeMounts = wanted.VolumeMounts
		container.LivenessProbe = wanted.LivenessProbe
		container.ReadinessProbe = wanted.ReadinessProbe
		container.StartupProbe = wanted.StartupProbe
		owned = append(owned, container)
	}
	return owned
}
