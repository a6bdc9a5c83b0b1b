// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// choices makes pods and wirings out of bytes. Everything is picked from few names that
// mean something, so that they collide.
type choices struct {
	bytes []byte
}

func (c *choices) number(below int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	b := c.bytes[0]
	c.bytes = c.bytes[1:]
	return int(b) % below
}

func pick[T any](c *choices, values ...T) T {
	return values[c.number(len(values))]
}

func several[T any](c *choices, below int, one func() T) []T {
	var list []T
	for range c.number(below) {
		list = append(list, one())
	}
	return list
}

func (c *choices) arg() string {
	return pick(c, "serve", "--port", "8000", "--x", "--x=1", "-1", "--kv-transfer-config", "--kv-transfer-config={}",
		"--enable-lmcache", "--lmcache-config-file", "--lmcache-config-file=/x", "--enable-hierarchical-cache",
		"--hicache-size", "--hicache-size=48", "48", "--hicache-ratio", "2.0", "--hicache-write-policy", "write_back", "page_head",
		"--hicache-mem-layout=page_head")
}

func (c *choices) env() corev1.EnvVar {
	name := pick(c, "HOME", "LMCACHE_CHUNK_SIZE", "LMCACHE_REMOTE_SERDE", "LMCACHE_REMOTE_URL", "LMCACHE_LOCAL_CPU",
		"PYTHONHASHSEED", "INFERENCECACHE_FAIL_OPEN", EnvWorkerMarker, EnvKernelCheckStrict, "LOG")
	if c.number(6) == 1 {
		return fieldEnv(name, "metadata.name")
	}
	return corev1.EnvVar{Name: name, Value: pick(c, "true", "256", "naive", "64", "0", "")}
}

func (c *choices) mount() corev1.VolumeMount {
	return corev1.VolumeMount{
		Name:      pick(c, "scratch", VolumeWorkerConfig, VolumeSharedMemory, "kube-api-access"),
		MountPath: pick(c, "/data", mountSharedMemory, mountWorkerConfig, mountServiceAccount),
		SubPath:   pick(c, "", "", "sub"),
		ReadOnly:  c.number(5) == 1,
	}
}

func (c *choices) volume() corev1.Volume {
	return corev1.Volume{
		Name: pick(c, "scratch", VolumeWorkerConfig, VolumeSharedMemory),
		VolumeSource: pick(c,
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
			corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{ReadOnly: true}}),
	}
}

func (c *choices) container() corev1.Container {
	container := corev1.Container{
		Name:         pick(c, ContainerVLLM, ContainerSGLang, "main", ContainerSubscriber, ContainerKernelCheck, ContainerWorker),
		Image:        pick(c, "engine:1", "image:1", ""),
		Args:         several(c, 6, c.arg),
		Env:          several(c, 5, c.env),
		VolumeMounts: several(c, 3, c.mount),
	}
	if c.number(3) == 1 {
		container.Resources.Limits = corev1.ResourceList{resourceGPU: resource.MustParse(pick(c, "1", "0"))}
	}
	if c.number(4) == 1 {
		container.TerminationMessagePath = corev1.TerminationMessagePathDefault
		container.StartupProbe = &corev1.Probe{TimeoutSeconds: int32(c.number(3)), SuccessThreshold: 1}
		container.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(7))}
	}
	return container
}

func (c *choices) pod() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		HostNetwork:    c.number(5) == 1,
		Containers:     several(c, 4, c.container),
		InitContainers: several(c, 4, c.container),
		Volumes:        several(c, 4, c.volume),
	}}
}

func (c *choices) wiring(adapter Adapter) Wiring {
	w := Wiring{
		Mode:              pick(c, v1alpha1.IntegrationModeOffload, v1alpha1.IntegrationModeEventsOnly, "", v1alpha1.IntegrationModeOffload),
		Role:              pick(c, v1alpha1.IntegrationRoleReadWrite, v1alpha1.IntegrationRoleReadOnly, ""),
		FailOpen:          c.number(5) != 1,
		EngineHostNetwork: c.number(3) == 1,
		KernelCheck:       pick(c, "auto", "strict", "report-only", "off", "typo"),
		ModelID:           pick(c, "lab/model", "lab/model", ""),
		MatchLabels:       map[string]string{"serve": "x"},
		HiCache: pick(c, nil, &HiCache{SizeGB: new(int32(48))}, &HiCache{Ratio: "2"},
			&HiCache{Ratio: "2.0", WritePolicy: "write_back", MemoryLayout: "page_head"}),
		LMCache: LMCache{
			ChunkSizeTokens: pick(c, nil, new(int32(256)), new(int32(-1)), new(int32(64))),
			HostMemory:      pick(c, nil, new(resource.MustParse("1536Mi")), new(resource.MustParse("1e2000000000"))),
			WorkerImage:     pick(c, "", "worker:1"),
			RemoteSerde:     pick(c, "", "cachegen"),
		},
		Overrides: Overrides{
			Args: several(c, 5, c.arg), SuppressArgs: several(c, 3, c.arg),
			Env: several(c, 4, c.env), SuppressEnv: several(c, 3, func() string { return c.env().Name }),
		},
	}
	w.Binding = pick(c, nil,
		&binding.Binding{Protocol: binding.ProtocolLM, Endpoint: "h:1"},
		&binding.Binding{Protocol: binding.ProtocolMooncakeStore, Endpoint: "mooncakestore://h:1"},
		&binding.Binding{Protocol: binding.ProtocolRESP, Endpoint: "[::1]:1"})
	w.Overrides = withoutReserved(adapter, w.Overrides)
	return w
}

func checkChoices(t *testing.T, data []byte) bool {
	t.Helper()
	c := &choices{bytes: data}
	adapter := pick(c, adapters...)
	wiring := c.wiring(adapter)
	subscriber := Subscriber{Image: pick(c, "", "subscriber:1", "subscriber:1")}
	return checkWire(t, adapter, c.pod(), wiring, subscriber)
}

// FuzzWireNames wires pods in which the names that matter collide.
func FuzzWireNames(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkChoices(t, data) })
}

// TestWireNames does the same with pods that are always the same ones.
func TestWireNames(t *testing.T) {
	t.Parallel()
	const pods = 20000
	wired := 0
	for seed := range uint64(pods) {
		if checkChoices(t, randomBytes(seed)) {
			wired++
		}
		if t.Failed() {
			t.Fatalf("with the seed %d", seed)
		}
	}
	if wired < pods/10 {
		t.Errorf("only %d of %d pods were wired, so this proves little", wired, pods)
	}
}

func randomBytes(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 200)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}
