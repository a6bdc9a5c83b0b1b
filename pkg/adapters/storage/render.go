// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Labels of everything that is rendered. They are part of the contract with operators and
// with whoever looks the pods up, and must not change: selectors are immutable.
const (
	LabelName        = "app.kubernetes.io/name"
	LabelInstance    = "app.kubernetes.io/instance"
	LabelManagedBy   = "app.kubernetes.io/managed-by"
	LabelBackendType = "inferencecache.io/backend-type"

	// NameValue is the value of LabelName.
	NameValue = "cachebackend"
	// ManagedByValue is the value of LabelManagedBy.
	ManagedByValue = "inference-cache-controller"
)

// Rendered are the objects of a provisioned tier as they are created, complete with what
// the API server would fill in by default, so that a live object that nobody changed is
// never written again.
type Rendered struct {
	// Deployment or StatefulSet is set, the other one is nil.
	Deployment  *appsv1.Deployment
	StatefulSet *appsv1.StatefulSet
	// Service is also the governing one of the StatefulSet.
	Service *corev1.Service
	// HPA is nil if there must be none.
	HPA *autoscalingv2.HorizontalPodAutoscaler
	// Replicas says what becomes of the number of replicas of a live workload.
	Replicas Replicas
}

// Render returns the objects that run a provider's tier for a backend. Nothing in them is
// shared with the request. The error is about a request that no workload can be made of.
func Render(provider Provider, request Request) (*Rendered, error) {
	resources, err := containerResources(request.Server.Resources, request.Autoscaling != nil)
	if err != nil {
		return nil, fmt.Errorf("rendering resources: %w", err)
	}
	request.Server.Resources = &resources
	tier := provider.describe(request.Server)
	singleton := provider.Singleton(request.Usage)

	rendered := &Rendered{
		Service:  renderService(tier, request),
		Replicas: newReplicas(request, singleton),
	}
	template := renderPodTemplate(tier, request, resources)
	if request.Kind == v1alpha1.DeploymentKindStatefulSet {
		rendered.StatefulSet = renderStatefulSet(template, request, rendered.Replicas)
	} else {
		rendered.Deployment = renderDeployment(template, request, rendered.Replicas)
	}
	if request.Autoscaling != nil && !singleton {
		rendered.HPA = renderHPA(*request.Autoscaling, request)
	}
	return rendered, nil
}

// SelectorLabels are the labels by which the pods of a backend's tier are found, and by
// which objects without a controller are known to have been ours.
func SelectorLabels(name string) map[string]string {
	return map[string]string{
		LabelName:      NameValue,
		LabelInstance:  name,
		LabelManagedBy: ManagedByValue,
	}
}

func labels(request Request) map[string]string {
	labels := SelectorLabels(request.Name)
	if request.Usage.Type != "" {
		labels[LabelBackendType] = string(request.Usage.Type)
	}
	return labels
}

// objectMeta is that of every object of the tier. Names are all the same.
func objectMeta(request Request) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: request.Namespace,
		Name:      request.Name,
		Labels:    labels(request),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion:         v1alpha1.APIVersion.String(),
			Kind:               "CacheBackend",
			Name:               request.Name,
			UID:                request.UID,
			Controller:         new(true),
			BlockOwnerDeletion: new(true),
		}},
	}
}

// ownMeta brings labels and owner references of a live object to the desired state. Those
// of others are left alone.
func ownMeta(live, desired *metav1.ObjectMeta) {
	if live.Labels == nil {
		live.Labels = map[string]string{}
	}
	if _, wanted := desired.Labels[LabelBackendType]; !wanted {
		delete(live.Labels, LabelBackendType)
	}
	maps.Copy(live.Labels, desired.Labels)
	for _, owner := range desired.OwnerReferences {
		live.OwnerReferences = ownReference(live.OwnerReferences, owner)
	}
}

// ownReference adds or repairs an owner reference. An object that somebody else controls
// stays as it is: the API server refuses a second controller.
func ownReference(references []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	found := -1
	for i, reference := range references {
		switch {
		case reference.UID == owner.UID:
			found = i
		case reference.Controller != nil && *reference.Controller:
			return references
		}
	}
	owner = *owner.DeepCopy()
	if found < 0 {
		return append(references, owner)
	}
	references[found] = owner
	return references
}
