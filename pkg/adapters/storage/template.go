// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	corev1 "k8s.io/api/core/v1"
)

// podSpec returns a pod with only the fields that a template may set, which are those of
// copyOverridable. A template replaces each of them whole, with nothing too; the API
// server's defaults stand where a template cannot say nothing. It may be nil.
func (t *Template) podSpec() *corev1.PodSpec {
	spec := &corev1.PodSpec{
		SecurityContext:               &corev1.PodSecurityContext{},
		SchedulerName:                 corev1.DefaultSchedulerName,
		TerminationGracePeriodSeconds: new(int64(corev1.DefaultTerminationGracePeriodSeconds)),
	}
	if t == nil {
		return spec
	}
	spec.NodeSelector = t.NodeSelector
	spec.Affinity = t.Affinity
	spec.Tolerations = t.Tolerations
	spec.TopologySpreadConstraints = t.TopologySpreadConstraints
	spec.ImagePullSecrets = t.ImagePullSecrets
	spec.ServiceAccountName = t.ServiceAccountName
	spec.PriorityClassName = t.PriorityClassName
	spec.RuntimeClassName = t.RuntimeClassName
	if t.SecurityContext != nil {
		spec.SecurityContext = t.SecurityContext
	}
	if t.SchedulerName != "" {
		spec.SchedulerName = t.SchedulerName
	}
	if t.TerminationGracePeriodSeconds != nil {
		spec.TerminationGracePeriodSeconds = t.TerminationGracePeriodSeconds
	}
	return spec
}

// copyOverridable copies the fields of a pod that a template may set, so that one that is
// no longer in the template is reverted.
func copyOverridable(to, from *corev1.PodSpec) {
	from = from.DeepCopy()
	to.NodeSelector = from.NodeSelector
	to.Affinity = from.Affinity
	to.Tolerations = from.Tolerations
	to.TopologySpreadConstraints = from.TopologySpreadConstraints
	to.ImagePullSecrets = from.ImagePullSecrets
	to.ServiceAccountName = from.ServiceAccountName
	// The API server refills an empty name from this alias.
	to.DeprecatedServiceAccount = from.ServiceAccountName
	to.SecurityContext = from.SecurityContext
	to.PriorityClassName = from.PriorityClassName
	to.SchedulerName = from.SchedulerName
	to.RuntimeClassName = from.RuntimeClassName
	to.TerminationGracePeriodSeconds = from.TerminationGracePeriodSeconds
}
