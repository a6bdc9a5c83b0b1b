// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The functions of this file bring one entry of a pod to a wanted state. Entries that are
// there already keep their place, so that doing it again changes nothing.

// setEnv sets a variable to a literal value. Of several entries with the name only the
// first is touched.
func setEnv(env []corev1.EnvVar, name, value string) []corev1.EnvVar {
	if i := indexEnv(env, name); i >= 0 {
		env[i] = corev1.EnvVar{Name: name, Value: value}
		return env
	}
	return append(env, corev1.EnvVar{Name: name, Value: value})
}

func removeEnv(env []corev1.EnvVar, name string) []corev1.EnvVar {
	return slices.DeleteFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
}

func indexEnv(env []corev1.EnvVar, name string) int {
	return slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
}

// setArgPair gives a flag a value, in two arguments. Of several occurrences only the first
// is touched. An argument after the flag that is itself a flag is not its value.
func setArgPair(args []string, flag, value string) []string {
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, flag+"="):
			return slices.Replace(args, i, i+1, flag, value)
		case arg != flag:
			continue
		case i+1 < len(args) && (args[i+1] == value || !isFlag(args[i+1])):
			args[i+1] = value
			return args
		default:
			return slices.Insert(args, i+1, value)
		}
	}
	return append(args, flag, value)
}

// setFlag adds a flag without a value.
func setFlag(args []string, flag string) []string {
	if slices.Contains(args, flag) {
		return args
	}
	return append(args, flag)
}

// setMount mounts a volume. A mount of the volume that is there already is replaced, best
// the one at the same path: a second mount there would make the pod invalid.
func setMount(mounts []corev1.VolumeMount, mount corev1.VolumeMount) []corev1.VolumeMount {
	i := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == mount.Name && m.MountPath == mount.MountPath })
	if i < 0 {
		i = slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == mount.Name })
	}
	if i >= 0 {
		mounts[i] = mount
		return mounts
	}
	return append(mounts, mount)
}

// putVolume replaces the volume of the same name where it stands, or appends.
func putVolume(volumes []corev1.Volume, volume corev1.Volume) []corev1.Volume {
	if i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == volume.Name }); i >= 0 {
		volumes[i] = volume
		return volumes
	}
	return append(volumes, volume)
}
