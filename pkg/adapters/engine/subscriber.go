// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const subscriberUser = 65532

// addSubscriber appends the KV-event subscriber, unless the pod has a container of its
// name, which stays as it is. It says whether the pod has a subscriber of ours now.
func addSubscriber(adapter Adapter, spec *corev1.PodSpec, wiring Wiring, subscriber Subscriber) bool {
	if subscriber.Image == "" || wiring.ModelID == "" {
		return false
	}
	rendered := subscriberContainer(adapter, wiring, subscriber)
	if i := indexContainer(spec.Containers, ContainerSubscriber); i >= 0 {
		present := spec.Containers[i]
		return present.Image == rendered.Image && slices.Equal(present.Args, rendered.Args)
	}
	if hasContainer(spec.InitContainers, ContainerSubscriber) {
		// Names are unique among both kinds.
		return false
	}
	spec.Containers = append(spec.Containers, rendered)
	return true
}

func subscriberContainer(adapter Adapter, wiring Wiring, subscriber Subscriber) corev1.Container {
	return corev1.Container{
		Name:            ContainerSubscriber,
		Image:           subscriber.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            subscriberArgs(adapter, wiring, subscriber),
		Env: []corev1.EnvVar{
			fieldEnv("POD_NAME", "metadata.name"),
			fieldEnv("POD_NAMESPACE", "metadata.namespace"),
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("10m"),
				corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			Limits: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("200m"),
				corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
		},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot:             new(true),
			RunAsUser:                new(int64(subscriberUser)),
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func subscriberArgs(adapter Adapter, wiring Wiring, subscriber Subscriber) []string {
	server := subscriber.ServerAddress
	if server == "" {
		server = DefaultServerAddress
	}
	args := []string{
		// Where both engines publish, with the settings that the documents give.
		"--engine-endpoint=tcp://127.0.0.1:5557",
		"--server=" + server,
		"--replica-id=$(POD_NAME)",
		"--tenant-id=$(POD_NAMESPACE)",
		"--model-id=" + wiring.ModelID,
		"--hash-scheme=" + adapter.HashScheme(),
	}
	if wiring.Mode != v1alpha1.IntegrationModeEventsOnly {
		// A block that the engine drops is still in the cache behind it. Without one it is
		// gone.
		args = append(args, "--ignore-block-removed=true")
	}
	return args
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: path},
	}}
}
