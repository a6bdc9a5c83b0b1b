// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// MutateHPA is for the HorizontalPodAutoscaler of a backend. All of its spec is ours, and
// none of it is immutable.
func MutateHPA(live *autoscalingv2.HorizontalPodAutoscaler, rendered *Rendered) *autoscalingv2.HorizontalPodAutoscaler {
	desired := rendered.HPA
	mutated := live.DeepCopy()
	ownMeta(&mutated.ObjectMeta, &desired.ObjectMeta)
	mutated.Spec = *desired.Spec.DeepCopy()
	return mutated
}
