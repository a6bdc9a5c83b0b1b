// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestSGLangLeavesTheRest checks what of an engine has no meaning to SGLang.
func TestSGLangLeavesTheRest(t *testing.T) {
	t.Parallel()
	pod := enginePod("sglang", "--model-path", "m")
	pod.Spec.Containers[0].Env = variables("LMCACHE_REMOTE_URL=mine\nPYTHONHASHSEED=7")
	wired := mustWire(t, sglangLMCache, pod, Wiring{Role: "ReadOnly", EngineHostNetwork: true}, Subscriber{})
	want := variables("LMCACHE_REMOTE_URL=mine\nPYTHONHASHSEED=7\nLMCACHE_USE_EXPERIMENTAL=True\nINFERENCECACHE_FAIL_OPEN=false")
	if diff := cmp.Diff(want, wired.Spec.Containers[0].Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if wired.Spec.HostNetwork {
		t.Error("the pod is on the host network")
	}
}

// ours gives a pod a worker that was rendered here before.
func ours(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{
		Name: ContainerWorker, Image: "old:1", Env: variables(EnvWorkerMarker + "=true"),
	})
	return pod
}

func emptyDir(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func withMounts(pod *corev1.Pod, mounts ...corev1.VolumeMount) *corev1.Pod {
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, mounts...)
	return pod
}

func withVolumes(pod *corev1.Pod, volumes ...corev1.Volume) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, volumes...)
	return pod
}

func TestSGLangReservedNames(t *testing.T) {
	t.Parallel()
	worker := func(marker string) *corev1.Pod {
		pod := enginePod("sglang")
		pod.Spec.InitContainers = containers(ContainerWorker)
		pod.Spec.InitContainers[0].Env = variables(marker)
		return pod
	}
	ordinary := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Containers = append(pod.Spec.Containers, containers(ContainerWorker)...)
		return pod
	}
	config := corev1.VolumeMount{Name: VolumeWorkerConfig, MountPath: "/etc/lmcache"}
	mine := corev1.VolumeMount{Name: "mine", MountPath: "/etc/lmcache"}
	shm := corev1.VolumeMount{Name: VolumeSharedMemory, MountPath: "/dev/shm"}
	elsewhere := withMounts(ordinaryPod(), corev1.VolumeMount{Name: "mine", MountPath: "/etc/lmcache"})
	tests := []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{name: "worker without the marker", pod: worker(""), want: "lmcache-mp-worker"},
		{name: "marker in other letters", pod: worker(EnvWorkerMarker + "=True"), want: "lmcache-mp-worker"},
		{name: "ordinary container", pod: ordinary(enginePod("sglang")), want: "lmcache-mp-worker"},
		{name: "ordinary container, ours", pod: ordinary(ours(enginePod("sglang"))), want: "lmcache-mp-worker"},
		{name: "engine of that name", pod: enginePod(ContainerWorker), want: "lmcache-mp-worker"},
		{name: "config volume", pod: withVolumes(enginePod("sglang"), emptyDir(VolumeWorkerConfig)), want: "lmcache-config"},
		{name: "shared memory volume", pod: withVolumes(enginePod("sglang"), emptyDir(VolumeSharedMemory)), want: "lmcache-dshm"},
		{name: "shared memory volume, mounted", pod: withMounts(withVolumes(enginePod("sglang"), emptyDir(VolumeSharedMemory)), shm), want: "lmcache-dshm"},
		{name: "shared memory mount without a volume", pod: withMounts(enginePod("sglang"), shm), want: "lmcache-dshm"},
		{name: "config mount without a volume", pod: withMounts(enginePod("sglang"), corev1.VolumeMount{Name: VolumeWorkerConfig, MountPath: "/x"}), want: "lmcache-config"},
		{name: "config path", pod: withMounts(enginePod("sglang"), mine), want: "/etc/lmcache"},
		{name: "config path, by name", pod: withMounts(enginePod("sglang"), config), want: "/etc/lmcache"},
		{name: "config path, ours", pod: withMounts(ours(enginePod("sglang")), mine), want: "/etc/lmcache"},
		{name: "config volume at the shared memory's path", pod: withMounts(ours(enginePod("sglang")),
			corev1.VolumeMount{Name: VolumeWorkerConfig, MountPath: "/dev/shm"}), want: "/dev/shm"},
		{name: "config path of another container", pod: elsewhere},
		{name: "path below", pod: withMounts(enginePod("sglang"), corev1.VolumeMount{Name: "mine", MountPath: "/etc/lmcache/mine"})},
		{name: "ours", pod: withVolumes(withMounts(ours(enginePod("sglang")), config, shm), emptyDir(VolumeWorkerConfig), emptyDir(VolumeSharedMemory))},
		{name: "ours, with one volume left", pod: withVolumes(ours(enginePod("sglang")), emptyDir(VolumeSharedMemory))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.want != "" {
				mustReject(t, sglangLMCache, tt.pod, Wiring{}, tt.want)
				return
			}
			mustWire(t, sglangLMCache, tt.pod, Wiring{}, Subscriber{})
		})
	}
}

// ordinaryPod has an engine behind another container.
func ordinaryPod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers("log", "sglang")}}
}

// TestSGLangConverges wires a pod that was wired when the backend said something else.
func TestSGLangConverges(t *testing.T) {
	t.Parallel()
	pod := enginePod("sglang")
	pod.Spec.InitContainers = containers("fetch")
	old := Wiring{LMCache: LMCache{HostMemory: new(resource.MustParse("8Gi")), WorkerPort: new(int32(6001)), WorkerImage: "worker:1"}}
	got := mustWire(t, sglangLMCache, mustWire(t, sglangLMCache, pod, old, Subscriber{}), Wiring{FailOpen: true}, Subscriber{})
	want := mustWire(t, sglangLMCache, pod, Wiring{FailOpen: true}, Subscriber{})
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

func TestSharedMemory(t *testing.T) {
	t.Parallel()
	mount := func(m corev1.VolumeMount) corev1.VolumeMount {
		m.Name, m.MountPath = "v", "/dev/shm"
		return m
	}
	plain := mount(corev1.VolumeMount{})
	yes := new(true)
	tests := []struct {
		name     string
		mount    corev1.VolumeMount
		source   corev1.VolumeSource
		rejected bool
	}{
		{name: "emptyDir", mount: plain, source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{name: "hostPath", mount: plain, source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev/shm"}}},
		{name: "ephemeral", mount: plain, source: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		{name: "no such volume", mount: plain},
		{name: "subPath", mount: mount(corev1.VolumeMount{SubPath: "engine"})},
		{name: "read-only mount", mount: mount(corev1.VolumeMount{ReadOnly: true}), rejected: true},
		{name: "subPathExpr", mount: mount(corev1.VolumeMount{SubPathExpr: "$(X)"}), rejected: true},
		{name: "configMap", mount: plain, source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, rejected: true},
		{name: "secret", mount: plain, source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}, rejected: true},
		{name: "downwardAPI", mount: plain, source: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, rejected: true},
		{name: "projected", mount: plain, source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}, rejected: true},
		{name: "PVC", mount: plain, source: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "writable PVC", mount: plain, source: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}},
		{name: "CSI", mount: plain, source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{ReadOnly: yes}}, rejected: true},
		{name: "writable CSI", mount: plain, source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{ReadOnly: new(false)}}},
		{name: "NFS", mount: plain, source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "CephFS", mount: plain, source: corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "RBD", mount: plain, source: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "iSCSI", mount: plain, source: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "AzureFile", mount: plain, source: corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "AzureDisk", mount: plain, source: corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{ReadOnly: yes}}, rejected: true},
		{name: "Quobyte", mount: plain, source: corev1.VolumeSource{Quobyte: &corev1.QuobyteVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "Portworx", mount: plain, source: corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "ScaleIO", mount: plain, source: corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "StorageOS", mount: plain, source: corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "Glusterfs", mount: plain, source: corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "Cinder", mount: plain, source: corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "FlexVolume", mount: plain, source: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "GCE PD", mount: plain, source: corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "AWS EBS", mount: plain, source: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{ReadOnly: true}}, rejected: true},
		{name: "FC", mount: plain, source: corev1.VolumeSource{FC: &corev1.FCVolumeSource{ReadOnly: true}}, rejected: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := withMounts(enginePod("sglang"), tt.mount)
			if tt.name != "no such volume" {
				pod = withVolumes(pod, corev1.Volume{Name: "v", VolumeSource: tt.source})
			}
			if tt.rejected {
				mustReject(t, sglangLMCache, pod, Wiring{}, "/dev/shm")
				return
			}
			spec := mustWire(t, sglangLMCache, pod, Wiring{}, Subscriber{}).Spec
			if findVolume(&spec, VolumeSharedMemory) != nil {
				t.Error("there is a second memory")
			}
			if diff := cmp.Diff(tt.mount, spec.Containers[0].VolumeMounts[0]); diff != "" {
				t.Errorf("mount of the engine (-want +got):\n%s", diff)
			}
			want := []corev1.VolumeMount{configMount, {Name: "v", MountPath: "/dev/shm", SubPath: tt.mount.SubPath}}
			if diff := cmp.Diff(want, spec.InitContainers[0].VolumeMounts); diff != "" {
				t.Errorf("mounts of the worker (-want +got):\n%s", diff)
			}
		})
	}
}
