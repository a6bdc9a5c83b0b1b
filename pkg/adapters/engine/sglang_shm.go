// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// memory is what an engine and its worker share.
type memory struct {
	// mount is how the worker mounts it.
	mount corev1.VolumeMount
	// ours says that the volume and the engine's mount are rendered here.
	ours bool
}

// sharedMemory finds the memory that an engine and its worker share. If the engine mounts
// something at the path already, the worker joins it there: a second mount at one path
// makes a pod invalid. The names of our own volumes are known not to be somebody else's.
func sharedMemory(spec *corev1.PodSpec, container *corev1.Container) (memory, error) {
	own := memory{
		mount: corev1.VolumeMount{Name: VolumeSharedMemory, MountPath: mountSharedMemory},
		ours:  true,
	}
	i := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mountSharedMemory })
	if i < 0 {
		return own, nil
	}
	mount := container.VolumeMounts[i]
	switch mount.Name {
	case VolumeSharedMemory:
		return own, nil
	case VolumeWorkerConfig:
		return memory{}, fmt.Errorf("the container %s mounts the volume %s at %s, which is not its place; remove the mount",
			container.Name, mount.Name, mountSharedMemory)
	}
	if reason := unwritable(mount, findVolume(spec, mount.Name)); reason != "" {
		return memory{}, fmt.Errorf("the container %s mounts the volume %s at %s, and %s; the worker has to write there",
			container.Name, mount.Name, mountSharedMemory, reason)
	}
	return memory{mount: corev1.VolumeMount{
		Name: mount.Name, MountPath: mountSharedMemory, SubPath: mount.SubPath,
	}}, nil
}

// unwritable says why a worker cannot share the mount, or nothing if it can. A volume that
// the pod lacks is for the API server to refuse.
func unwritable(mount corev1.VolumeMount, volume *corev1.Volume) string {
	switch {
	case mount.ReadOnly:
		return "the mount is read-only"
	case mount.SubPathExpr != "":
		// It is expanded with the environment of each container.
		return "the mount has a subPathExpr"
	case volume == nil:
		return ""
	}
	source := volume.VolumeSource
	switch {
	case source.ConfigMap != nil:
		return "its source is a configMap"
	case source.Secret != nil:
		return "its source is a secret"
	case source.DownwardAPI != nil:
		return "its source is a downwardAPI"
	case source.Projected != nil:
		return "its source is projected"
	case readOnlySource(source):
		return "its source is read-only"
	}
	return ""
}

// readOnlySource says whether the source of a volume declares that it is read-only. A mount
// cannot take that back.
func readOnlySource(source corev1.VolumeSource) bool {
	return source.PersistentVolumeClaim != nil && source.PersistentVolumeClaim.ReadOnly ||
		source.CSI != nil && source.CSI.ReadOnly != nil && *source.CSI.ReadOnly ||
		source.NFS != nil && source.NFS.ReadOnly ||
		source.CephFS != nil && source.CephFS.ReadOnly ||
		source.RBD != nil && source.RBD.ReadOnly ||
		source.ISCSI != nil && source.ISCSI.ReadOnly ||
		source.AzureFile != nil && source.AzureFile.ReadOnly ||
		source.AzureDisk != nil && source.AzureDisk.ReadOnly != nil && *source.AzureDisk.ReadOnly ||
		source.Quobyte != nil && source.Quobyte.ReadOnly ||
		source.PortworxVolume != nil && source.PortworxVolume.ReadOnly ||
		source.ScaleIO != nil && source.ScaleIO.ReadOnly ||
		source.StorageOS != nil && source.StorageOS.ReadOnly ||
		source.Glusterfs != nil && source.Glusterfs.ReadOnly ||
		source.Cinder != nil && source.Cinder.ReadOnly ||
		source.FlexVolume != nil && source.FlexVolume.ReadOnly ||
		source.GCEPersistentDisk != nil && source.GCEPersistentDisk.ReadOnly ||
		source.AWSElasticBlockStore != nil && source.AWSElasticBlockStore.ReadOnly ||
		source.FC != nil && source.FC.ReadOnly
}
