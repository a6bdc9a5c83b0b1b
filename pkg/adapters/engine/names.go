// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

// Names on engine pods. They are part of the contract with operators and with whoever reads
// the pods back, and must not change.
const (
	// ContainerVLLM is the container of the vLLM engine.
	ContainerVLLM = "vllm"
	// ContainerSGLang is the container of the SGLang engine.
	ContainerSGLang = "sglang"
	// ContainerSubscriber is the container that forwards the engine's KV events.
	ContainerSubscriber = "kvevent-subscriber"
	// ContainerKernelCheck is the init container that loads LMCache's native kernels.
	ContainerKernelCheck = "lmcache-kernel-check"
	// ContainerWorker is the init container that runs on as LMCache's worker process
	// beside an SGLang engine.
	ContainerWorker = "lmcache-mp-worker"

	// VolumeWorkerConfig holds the file that tells SGLang where its worker is.
	VolumeWorkerConfig = "lmcache-config"
	// VolumeSharedMemory is the memory that SGLang and its worker share.
	VolumeSharedMemory = "lmcache-dshm"

	// EnvWorkerMarker marks the worker as rendered here, if its value is exactly "true".
	EnvWorkerMarker = "INFERENCECACHE_MP_WORKER"
	// EnvKernelCheckStrict makes the kernel check block the pod, if its value is "1".
	EnvKernelCheckStrict = "KERNEL_CHECK_STRICT"
)

const (
	mountWorkerConfig = "/etc/lmcache"
	workerConfigFile  = mountWorkerConfig + "/config.yaml"
	mountSharedMemory = "/dev/shm"
)

// DefaultServerAddress is where KV events go unless somebody says otherwise.
const DefaultServerAddress = "inference-cache-server.inference-cache-system.svc.cluster.local:9090"
