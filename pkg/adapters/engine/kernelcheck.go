// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	_ "embed"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// detector is the program of the kernel check. There is no shell around it: an image may
// have none, and a check that cannot start blocks the pod.
//
//go:embed detector.py
var detector string

const resourceGPU = corev1.ResourceName("nvidia.com/gpu")

// setKernelCheck makes a pod check the kernels of its engine, or not, as the mode says.
func setKernelCheck(spec *corev1.PodSpec, container *corev1.Container, mode string) {
	if !wantsKernelCheck(spec, container, mode) {
		removeKernelCheck(spec)
		return
	}
	strict := mode == v1alpha1.KernelCheckStrict
	spec.InitContainers = putContainer(spec.InitContainers, kernelCheckContainer(container, strict))
}

func removeKernelCheck(spec *corev1.PodSpec) {
	spec.InitContainers = slices.DeleteFunc(spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == ContainerKernelCheck
	})
}

func wantsKernelCheck(spec *corev1.PodSpec, container *corev1.Container, mode string) bool {
	if container.Image == "" || hasContainer(spec.Containers, ContainerKernelCheck) {
		// Names are unique among both kinds of containers.
		return false
	}
	switch mode {
	case v1alpha1.KernelCheckOff:
		return false
	case v1alpha1.KernelCheckReportOnly, v1alpha1.KernelCheckStrict:
		return true
	default:
		return requestsGPU(container.Resources)
	}
}

func requestsGPU(resources corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{resources.Limits, resources.Requests} {
		if quantity, ok := list[resourceGPU]; ok && quantity.Sign() > 0 {
			return true
		}
	}
	return false
}

// kernelCheckContainer runs the detector as the engine runs, but for the GPU: loading the
// kernels needs none. It has no limits, since one too small would block the pod.
func kernelCheckContainer(engine *corev1.Container, strict bool) corev1.Container {
	engine = engine.DeepCopy()
	value := "0"
	if strict {
		value = "1"
	}
	env := removeEnv(engine.Env, EnvKernelCheckStrict)
	return corev1.Container{
		Name:            ContainerKernelCheck,
		Image:           engine.Image,
		ImagePullPolicy: engine.ImagePullPolicy,
		Command:         []string{"python3", "-c", detector},
		WorkingDir:      engine.WorkingDir,
		Env:             append(env, corev1.EnvVar{Name: EnvKernelCheckStrict, Value: value}),
		EnvFrom:         engine.EnvFrom,
		VolumeMounts:    engine.VolumeMounts,
		VolumeDevices:   engine.VolumeDevices,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("50m"),
			corev1.ResourceMemory: resource.MustParse("256Mi"),
		}},
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          engine.SecurityContext,
	}
}
