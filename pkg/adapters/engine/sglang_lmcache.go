// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	argEnableLMCache     = "--enable-lmcache"
	argLMCacheConfigFile = "--lmcache-config-file"

	envUseExperimental = "LMCACHE_USE_EXPERIMENTAL"

	hashSchemeSGLang = "sglang"
)

// sglangLMCache is SGLang with an LMCache worker process beside it.
var sglangLMCache = table{
	pair:          Pair{Runtime: v1alpha1.RuntimeSGLang, Type: v1alpha1.CacheTypeLMCache},
	reservedArgs:  []string{argEnableLMCache, argLMCacheConfigFile},
	reservedEnv:   []string{envUseExperimental, envFailOpen},
	hostOnly:      true,
	protocols:     []binding.Protocol{binding.ProtocolRESP},
	containerName: ContainerSGLang,
	hashScheme:    hashSchemeSGLang,
	injection:     injectSGLang,
}

// injectSGLang makes SGLang use a worker, and adds the worker: an init container that
// keeps running, the file that says where it is, and the memory that both share.
func injectSGLang(spec *corev1.PodSpec, container *corev1.Container, wiring Wiring) error {
	// Decided before anything is changed: afterwards every pod looks like ours.
	ours := hasOurWorker(spec)
	if err := checkReservedNames(spec, container, ours); err != nil {
		return err
	}
	worker, err := newWorker(wiring)
	if err != nil {
		return err
	}
	shared, err := sharedMemory(spec, container)
	if err != nil {
		return err
	}

	if shared.ours {
		container.VolumeMounts = setMount(container.VolumeMounts, shared.mount)
	}
	container.Args = setFlag(container.Args, argEnableLMCache)
	container.Args = setArgPair(container.Args, argLMCacheConfigFile, workerConfigFile)
	container.Env = setEnv(container.Env, envUseExperimental, "True")
	container.Env = setEnv(container.Env, envFailOpen, strconv.FormatBool(wiring.FailOpen))
	container.VolumeMounts = setMount(container.VolumeMounts, configMount)

	spec.Volumes = putVolume(spec.Volumes, corev1.Volume{
		Name:         VolumeWorkerConfig,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	if shared.ours {
		spec.Volumes = putVolume(spec.Volumes, worker.sharedMemoryVolume())
	}
	addWorker(spec, worker.container(container, shared.mount))
	return nil
}

var configMount = corev1.VolumeMount{Name: VolumeWorkerConfig, MountPath: mountWorkerConfig}

// hasOurWorker says whether a pod was wired here before. Then the reserved names in it are
// ours too.
func hasOurWorker(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == ContainerWorker && slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.Name == EnvWorkerMarker && e.Value == "true"
		})
	})
}

// checkReservedNames refuses pods in which something else has a name or a path that the
// integration needs.
func checkReservedNames(spec *corev1.PodSpec, container *corev1.Container, ours bool) error {
	if hasContainer(spec.Containers, ContainerWorker) {
		return fmt.Errorf("the container name %s is reserved; rename the container", ContainerWorker)
	}
	for _, mount := range container.VolumeMounts {
		if mount.MountPath == mountWorkerConfig && (!ours || mount.Name != VolumeWorkerConfig) {
			return fmt.Errorf("the container %s mounts the volume %s at %s, which is reserved; mount it elsewhere",
				container.Name, mount.Name, mountWorkerConfig)
		}
	}
	if ours {
		return nil
	}
	if hasContainer(spec.InitContainers, ContainerWorker) {
		return fmt.Errorf("the init container name %s is reserved; rename the container", ContainerWorker)
	}
	for _, name := range []string{VolumeWorkerConfig, VolumeSharedMemory} {
		// A mount without its volume counts too: it would find a volume once we add ours.
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
		if mounted || findVolume(spec, name) != nil {
			return fmt.Errorf("the volume name %s is reserved; rename the volume", name)
		}
	}
	return nil
}

func findVolume(spec *corev1.PodSpec, name string) *corev1.Volume {
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &spec.Volumes[i]
}
