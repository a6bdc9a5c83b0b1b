// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// tier is what tells the tiers of providers from one another.
type tier struct {
	// container is the name of the only container.
	container string
	image     string
	// command is nil to keep the entry point of the image.
	command []string
	args    []string
	// ports are in the order of the manifests. The first one is probed and makes the
	// endpoint.
	ports []port
	// probeDelay is the time in seconds until the first probe.
	probeDelay int32
	// hostNetwork puts the pod on the network of its node.
	hostNetwork bool
	// headless makes the name of the Service resolve to the pod itself.
	headless bool
}

// port is a port of a container.
type port struct {
	name   string
	number int32
	// internal ports are not on the Service.
	internal bool
}

func (t tier) containerPorts() []corev1.ContainerPort {
	ports := make([]corev1.ContainerPort, 0, len(t.ports))
	for _, port := range t.ports {
		ports = append(ports, corev1.ContainerPort{Name: port.name, ContainerPort: port.number, Protocol: corev1.ProtocolTCP})
	}
	return ports
}

func (t tier) servicePorts() []corev1.ServicePort {
	ports := make([]corev1.ServicePort, 0, len(t.ports))
	for _, port := range t.ports {
		if port.internal {
			continue
		}
		ports = append(ports, corev1.ServicePort{
			Name:       port.name,
			Protocol:   corev1.ProtocolTCP,
			Port:       port.number,
			TargetPort: intstr.FromString(port.name),
		})
	}
	return ports
}

// readinessProbe dials the first port.
func (t tier) readinessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(t.ports[0].name)},
		},
		InitialDelaySeconds: t.probeDelay,
		TimeoutSeconds:      1,
		PeriodSeconds:       10,
		SuccessThreshold:    1,
		FailureThreshold:    6,
	}
}
