// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	defaultWorkerPort      = 5555
	defaultWorkerMemoryGiB = 4
	// workerOverheadGiB is what the worker gets beyond its cache.
	workerOverheadGiB = 1
	workerHost        = "127.0.0.1"
)

// worker is LMCache's process beside an SGLang engine.
type worker struct {
	// image is empty when it is that of the engine.
	image           string
	port            int32
	chunkSizeTokens int32
	memoryGiB       int64
	// remoteTier is the server's setting for it, empty without one.
	remoteTier string
}

// newWorker falls back to the default for each stored number that is out of range.
func newWorker(wiring Wiring) (worker, error) {
	w := worker{
		image:           wiring.LMCache.WorkerImage,
		port:            defaultWorkerPort,
		chunkSizeTokens: chunkSize(wiring.LMCache),
		memoryGiB:       cmp.Or(hostMemoryGiB(wiring.LMCache), defaultWorkerMemoryGiB),
	}
	if port := wiring.LMCache.WorkerPort; port != nil && *port >= 1 && *port <= 65535 {
		w.port = *port
	}
	if wiring.Binding == nil {
		return w, nil
	}
	var err error
	w.remoteTier, err = respAdapter(wiring.Binding.Endpoint)
	return w, err
}

// respAdapter renders the worker's setting for a Redis.
func respAdapter(text string) (string, error) {
	endpoint, err := binding.ParseEndpoint(v1alpha1.StorageProviderRedis, text)
	if err != nil {
		return "", fmt.Errorf("the endpoint of the remote tier %w", err)
	}
	setting, err := json.Marshal(struct {
		Type string `json:"type"`
		Host string `json:"host"`
		Port int    `json:"port"`
	}{Type: string(binding.ProtocolRESP), Host: endpoint.Host, Port: endpoint.Port})
	if err != nil {
		return "", fmt.Errorf("rendering the remote tier: %w", err)
	}
	// The kubelet expands $(NAME) in arguments, and the setting becomes part of one.
	return strings.ReplaceAll(string(setting), "$", `\u0024`), nil
}

// container renders the worker for the pod of an engine. Its environment is its own: that
// of the engine may hold what changes the engine alone.
func (w worker) container(engine *corev1.Container, sharedMemory corev1.VolumeMount) corev1.Container {
	image := w.image
	if image == "" {
		image = engine.Image
	}
	memory := corev1.ResourceList{corev1.ResourceMemory: w.memory()}
	return corev1.Container{
		Name:          ContainerWorker,
		Image:         image,
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Command:       []string{"sh", "-c"},
		Args:          []string{w.script()},
		Env: []corev1.EnvVar{
			// The worker opens the engine's GPU by its UUID, so it has to see it. A GPU of
			// its own would be another one.
			{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"},
			{Name: EnvWorkerMarker, Value: "true"},
		},
		VolumeMounts: []corev1.VolumeMount{configMount, sharedMemory},
		Resources:    corev1.ResourceRequirements{Requests: memory, Limits: memory.DeepCopy()},
		StartupProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
				Command: []string{"python3", "-c", w.probe()},
			}},
			PeriodSeconds:    3,
			FailureThreshold: 40,
		},
		SecurityContext: workerSecurity(engine.SecurityContext),
	}
}

// script writes the configuration and becomes the server. It uses nothing but the shell
// itself, since the image is somebody else's.
func (w worker) script() string {
	lines := []string{
		fmt.Sprintf("chunk_size: %d", w.chunkSizeTokens),
		fmt.Sprintf("mp_host: %q", workerHost),
		fmt.Sprintf("mp_port: %d", w.port),
	}
	server := []string{
		"python3", "-m", "lmcache.v1.multiprocess.server",
		"--host", workerHost,
		"--port", strconv.Itoa(int(w.port)),
		"--chunk-size", strconv.Itoa(int(w.chunkSizeTokens)),
		"--l1-size-gb", strconv.FormatInt(w.memoryGiB, 10),
		"--eviction-policy", "LRU",
	}
	if w.remoteTier != "" {
		server = append(server, "--l2-adapter", w.remoteTier)
	}
	return "set -e\n" +
		`printf '%s\n' ` + quoteAll(lines) + " > " + workerConfigFile + "\n" +
		"exec " + quoteAll(server) + "\n"
}

// quoteAll joins words for a POSIX shell.
func quoteAll(words []string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		quoted = append(quoted, quoteWord(word))
	}
	return strings.Join(quoted, " ")
}

// quoteWord makes a text one word of a POSIX shell, whatever is in it.
func quoteWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// probe is a program that succeeds once the server listens. It listens on the loopback
// interface alone, which the kubelet's own probes do not reach.
func (w worker) probe() string {
	return fmt.Sprintf("import socket; socket.create_connection((%q, %d), 1).close()", workerHost, w.port)
}

func (w worker) memory() resource.Quantity {
	// Its bytes may be more than an int64 holds; parsing caps them.
	quantity, err := resource.ParseQuantity(strconv.FormatInt(w.memoryGiB+workerOverheadGiB, 10) + "Gi")
	if err != nil {
		return *resource.NewQuantity((defaultWorkerMemoryGiB+workerOverheadGiB)<<30, resource.BinarySI)
	}
	return quantity
}

func (w worker) sharedMemoryVolume() corev1.Volume {
	return corev1.Volume{
		Name: VolumeSharedMemory,
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium:    corev1.StorageMediumMemory,
			SizeLimit: new(w.memory()),
		}},
	}
}

// workerSecurity lets the worker run as the engine's user, so that each can open what the
// other writes, and with no rights beyond that.
func workerSecurity(engine *corev1.SecurityContext) *corev1.SecurityContext {
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if engine != nil {
		copied := engine.DeepCopy()
		security.RunAsNonRoot = copied.RunAsNonRoot
		security.RunAsUser = copied.RunAsUser
		security.RunAsGroup = copied.RunAsGroup
	}
	return security
}

// addWorker puts the worker where the pod has it already, or after the init containers that
// are there. What API servers fill in is kept, so that a pod that was wired before, stored,
// and created again is not changed.
func addWorker(spec *corev1.PodSpec, container corev1.Container) {
	if i := indexContainer(spec.InitContainers, ContainerWorker); i >= 0 {
		keepFilledIn(&container, &spec.InitContainers[i])
	}
	spec.InitContainers = putContainer(spec.InitContainers, container)
}

// mountServiceAccount is where API servers mount the token of the pod's service account in
// each container that has nothing there.
const mountServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

func keepFilledIn(rendered, stored *corev1.Container) {
	if stored.Image == rendered.Image {
		rendered.ImagePullPolicy = stored.ImagePullPolicy
	}
	if stored.TerminationMessagePath == corev1.TerminationMessagePathDefault {
		rendered.TerminationMessagePath = stored.TerminationMessagePath
	}
	if stored.TerminationMessagePolicy == corev1.TerminationMessageReadFile {
		rendered.TerminationMessagePolicy = stored.TerminationMessagePolicy
	}
	if probe := stored.StartupProbe; probe != nil && probe.TimeoutSeconds == 1 {
		rendered.StartupProbe.TimeoutSeconds = 1
	}
	if probe := stored.StartupProbe; probe != nil && probe.SuccessThreshold == 1 {
		rendered.StartupProbe.SuccessThreshold = 1
	}
	rendered.ResizePolicy = slices.Clone(stored.ResizePolicy)
	for _, mount := range stored.VolumeMounts {
		if mount.MountPath == mountServiceAccount {
			rendered.VolumeMounts = append(rendered.VolumeMounts, mount)
		}
	}
}
