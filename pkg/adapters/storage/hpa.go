// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func renderHPA(autoscaling Autoscaling, request Request) *autoscalingv2.HorizontalPodAutoscaler {
	kind := v1alpha1.DeploymentKindDeployment
	if request.Kind == v1alpha1.DeploymentKindStatefulSet {
		kind = v1alpha1.DeploymentKindStatefulSet
	}
	target := int32(80)
	if autoscaling.TargetCPUUtilizationPercent != nil {
		target = *autoscaling.TargetCPUUtilizationPercent
	}
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: objectMeta(request),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: "apps/v1",
				Kind:       string(kind),
				Name:       request.Name,
			},
			MinReplicas: new(orOne(autoscaling.MinReplicas)),
			MaxReplicas: autoscaling.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type:               autoscalingv2.UtilizationMetricType,
						AverageUtilization: new(target),
					},
				},
			}},
		},
	}
}
