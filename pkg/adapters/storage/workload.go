// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// revisionHistoryLimit is the API server's default.
const revisionHistoryLimit = 10

func renderDeployment(template corev1.PodTemplateSpec, request Request, replicas Replicas) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(request),
		Spec: appsv1.DeploymentSpec{
			Replicas:                new(replicas.OnCreate()),
			Selector:                &metav1.LabelSelector{MatchLabels: SelectorLabels(request.Name)},
			Template:                template,
			Strategy:                deploymentStrategy(template.Spec.HostNetwork),
			RevisionHistoryLimit:    new(int32(revisionHistoryLimit)),
			ProgressDeadlineSeconds: new(int32(600)),
		},
	}
}

// deploymentStrategy is Recreate for pods on the host network: the ports of the node are
// taken until the old pod is gone, and a surge pod would wait for ever.
func deploymentStrategy(hostNetwork bool) appsv1.DeploymentStrategy {
	if hostNetwork {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	return appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: new(intstr.FromString("25%")),
			MaxSurge:       new(intstr.FromString("25%")),
		},
	}
}

// renderStatefulSet has no Recreate and needs none: a StatefulSet deletes a pod before it
// creates the next one.
func renderStatefulSet(template corev1.PodTemplateSpec, request Request, replicas Replicas) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: objectMeta(request),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(replicas.OnCreate()),
			Selector:            &metav1.LabelSelector{MatchLabels: SelectorLabels(request.Name)},
			Template:            template,
			ServiceName:         request.Name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
					Partition:      new(int32(0)),
					MaxUnavailable: new(intstr.FromInt32(1)),
				},
			},
			RevisionHistoryLimit: new(int32(revisionHistoryLimit)),
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
				WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			},
		},
	}
}

func renderPodTemplate(tier tier, request Request, resources corev1.ResourceRequirements) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels(request)},
		Spec: corev1.PodSpec{
			Containers:    []corev1.Container{renderContainer(tier, resources)},
			RestartPolicy: corev1.RestartPolicyAlways,
			DNSPolicy:     corev1.DNSClusterFirst,
		},
	}
	if tier.hostNetwork {
		template.Spec.HostNetwork = true
		template.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	copyOverridable(&template.Spec, request.Template.podSpec())
	return template
}

func renderContainer(tier tier, resources corev1.ResourceRequirements) corev1.Container {
	return corev1.Container{
		Name:                     tier.container,
		Image:                    tier.image,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		Command:                  slices.Clone(tier.command),
		Args:                     slices.Clone(tier.args),
		Ports:                    tier.containerPorts(),
		Resources:                resources,
		ReadinessProbe:           tier.readinessProbe(),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}
