// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Request is what a backend asks of its provisioned tier, as plain values. It may stem from
// an object that was stored under laxer rules, so nothing in it is taken to be valid.
type Request struct {
	// Namespace, Name and UID are those of the backend.
	Namespace string
	Name      string
	UID       types.UID
	Usage     Usage
	// Kind is a Deployment unless it says StatefulSet.
	Kind v1alpha1.DeploymentKind
	// Replicas is 1 when nil. It is without effect while Autoscaling is set.
	Replicas *int32
	// Autoscaling is nil when the backend has none.
	Autoscaling *Autoscaling
	// Server is the block of the provider that was chosen, and empty when there is none.
	Server Server
	// Template is nil when the backend has none.
	Template *Template
}

// Autoscaling bounds the number of replicas.
type Autoscaling struct {
	// MinReplicas is 1 when nil.
	MinReplicas *int32
	MaxReplicas int32
	// TargetCPUUtilizationPercent is 80 when nil.
	TargetCPUUtilizationPercent *int32
}

// Server amends the container of a provider.
type Server struct {
	// Image replaces the provider's image, unless it is empty.
	Image string
	// Command replaces the whole command line, unless it is empty. Not every provider
	// offers that.
	Command []string
	// Resources replace the provider's resources, unless they are nil. Empty ones mean that
	// nothing is requested and nothing limited.
	Resources *corev1.ResourceRequirements
}

// commandLine returns command and arguments of the container.
func (s Server) commandLine(command, args []string) ([]string, []string) {
	if len(s.Command) == 0 {
		return command, args
	}
	return s.Command[:1], s.Command[1:]
}

// image returns the image of the container.
func (s Server) image(pinned string) string {
	if s.Image == "" {
		return pinned
	}
	return s.Image
}

// Template amends the pods. Containers are the provider's and not in here.
type Template struct {
	NodeSelector                  map[string]string
	Affinity                      *corev1.Affinity
	Tolerations                   []corev1.Toleration
	TopologySpreadConstraints     []corev1.TopologySpreadConstraint
	ImagePullSecrets              []corev1.LocalObjectReference
	ServiceAccountName            string
	SecurityContext               *corev1.PodSecurityContext
	PriorityClassName             string
	SchedulerName                 string
	RuntimeClassName              *string
	TerminationGracePeriodSeconds *int64
}
