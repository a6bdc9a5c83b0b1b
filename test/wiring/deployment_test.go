// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cluster"
)

const (
	samplesNamespace = "inference-cache-samples"
	subscriberArg    = "--kvevent-subscriber-image=registry.test/plane/kv-sub:1"
)

// sampleWires says for the backend of each sample of an engine what its pods get: init containers and containers besides
// the engine, and something in the engine's arguments and environment.
var sampleWires = map[string]struct {
	added       []string
	args, env   []string
	hostNetwork bool
}{
	"vllm-host-only": {
		added: []string{"lmcache-kernel-check", "kvevent-subscriber"}, args: []string{"--kv-transfer-config"}, env: []string{"LMCACHE_LOCAL_CPU=True"},
	},
	"chat-lmcacheserver": {
		added: []string{"lmcache-kernel-check", "kvevent-subscriber"}, args: []string{"--kv-transfer-config"}, env: []string{"LMCACHE_REMOTE_URL=lm://chat.example:65432"},
	},
	"vllm-lmcacheserver-external": {
		added: []string{"lmcache-kernel-check", "kvevent-subscriber"}, args: []string{"--kv-transfer-config"}, env: []string{"LMCACHE_REMOTE_URL=lm://lmcache.example.net:65432"},
	},
	"vllm-mooncake-external": {
		added: []string{"lmcache-kernel-check", "kvevent-subscriber"}, args: []string{"--kv-transfer-config"}, env: []string{"LMCACHE_CHUNK_SIZE=256"},
		hostNetwork: true,
	},
	"sglang-redis-external": {
		added: []string{"lmcache-mp-worker", "kvevent-subscriber"}, args: []string{"--enable-lmcache"}, env: []string{"LMCACHE_USE_EXPERIMENTAL=True"},
	},
	"sglang-hicache-ratio": {added: []string{"kvevent-subscriber"}, args: []string{"--enable-hierarchical-cache", "--hicache-ratio"}},
	"sglang-events-only":   {added: []string{"kvevent-subscriber"}},
}

// kubectl runs kubectl as an administrator, with a manifest on its standard input if there is one.
func kubectl(t *testing.T, manifest any, args ...string) (stdout, stderr string) {
	t.Helper()
	data, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, err = env.KubectlInput(t.Context(), strings.NewReader(string(data)), args...); err != nil {
		t.Fatal(err)
	}
	return stdout, stderr
}

// TestSamples asserts that the samples do what they say when they are applied to a cluster: each engine becomes ready with
// the wire of its backend. The one whose tier is not provisioned yet runs without, and has its wire after a rollout once
// the tier has an endpoint.
func TestSamples(t *testing.T) {
	serving(t, subscriberArg)
	samples := filepath.Join(cluster.Root(), "artifacts", "samples")
	kubectl(t, nil, "apply", "-f", samples)
	t.Cleanup(func() {
		_, _, err := env.Kubectl(context.Background(), "delete", "--wait=false", "namespace", samplesNamespace)
		if err != nil {
			t.Error(err)
		}
	})
	waitPodsAllowed(t, samplesNamespace)
	kubectl(t, nil, "apply", "-f", filepath.Join(samples, "engines"))

	backends, err := env.inference.InferencecacheV1alpha1().CacheBackends(samplesNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deployments, err := env.kube.AppsV1().Deployments(samplesNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) != len(sampleWires) {
		t.Errorf("got %d engines, want %d", len(deployments.Items), len(sampleWires))
	}
	for _, deployment := range deployments.Items {
		i := slices.IndexFunc(backends.Items, func(b v1alpha1.CacheBackend) bool {
			return labels.SelectorFromSet(b.Spec.EngineSelector.MatchLabels).Matches(labels.Set(deployment.Spec.Template.Labels))
		})
		if i < 0 {
			t.Errorf("no backend selects %s", deployment.Name)
			continue
		}
		t.Run(deployment.Name, func(t *testing.T) { expectSample(t, &deployment, &backends.Items[i]) })
	}
}

func expectSample(t *testing.T, deployment *appsv1.Deployment, backend *v1alpha1.CacheBackend) {
	pod := runningPod(t, deployment)
	if storage := backend.Spec.RemoteStorage; storage != nil && storage.Ownership == v1alpha1.StorageOwnershipManaged {
		if diff := cmp.Diff(containerNames(&deployment.Spec.Template.Spec), containerNames(&pod.Spec)); diff != "" || len(pod.Annotations) > 0 {
			t.Errorf("without an endpoint, the pod has annotations %v and containers (-want +got):\n%s", pod.Annotations, diff)
		}
		status := []byte(`{"status":{"endpoint":"chat.example:65432"}}`)
		_, err := env.inference.InferencecacheV1alpha1().CacheBackends(backend.Namespace).
			Patch(t.Context(), backend.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, nil, "-n", deployment.Namespace, "rollout", "restart", "deployment", deployment.Name)
		pod = runningPod(t, deployment)
	}

	want := sampleWires[backend.Name]
	if got := pod.Annotations[v1alpha1.AnnotationInjectedByUID]; got != string(backend.UID) {
		t.Errorf("the pod is stamped with %q, want %s of %s", got, backend.UID, backend.Name)
	}
	if got := containerNames(&pod.Spec)[1:]; !slices.Equal(got, want.added) {
		t.Errorf("got containers %q, want %q", got, want.added)
	}
	engine := pod.Spec.Containers[0]
	args := strings.Join(engine.Args, " ")
	for _, arg := range want.args {
		if strings.Count(" "+args+" ", " "+arg+" ") != 1 {
			t.Errorf("the engine has not once %s: %s", arg, args)
		}
	}
	for _, entry := range want.env {
		name, value, _ := strings.Cut(entry, "=")
		if !slices.Contains(engine.Env, corev1.EnvVar{Name: name, Value: value}) {
			t.Errorf("the engine lacks %s: %v", entry, engine.Env)
		}
	}
	if pod.Spec.HostNetwork != want.hostNetwork {
		t.Errorf("hostNetwork is %v, want %v", pod.Spec.HostNetwork, want.hostNetwork)
	}
}

// containerNames are the engine's name first, then those of the init containers and of the others.
func containerNames(spec *corev1.PodSpec) []string {
	names := []string{spec.Containers[0].Name}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers[1:]) {
		names = append(names, container.Name)
	}
	return names
}

// runningPod waits for the rollout of a Deployment and returns its pod, which is on a node and ready.
func runningPod(t *testing.T, deployment *appsv1.Deployment) *corev1.Pod {
	t.Helper()
	kubectl(t, nil, "-n", deployment.Namespace, "rollout", "status", "deployment", deployment.Name, "--timeout="+patience.String())
	list, err := env.kube.CoreV1().Pods(deployment.Namespace).List(t.Context(),
		metav1.ListOptions{LabelSelector: labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels).String()})
	if err != nil {
		t.Fatal(err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if len(pods) != 1 || pods[0].Spec.NodeName == "" || !ready(&pods[0]) {
		t.Fatalf("want one ready pod, got %+v", pods)
	}
	return &pods[0]
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// TestServerDryRun asserts that `kubectl create --dry-run=server` shows what a pod would become, and creates nothing.
func TestServerDryRun(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	backend := createBackend(t, newBackend(namespace, "a"))
	pod := newPod(namespace, "shown")
	pod.APIVersion, pod.Kind = "v1", "Pod"
	stdout, stderr := kubectl(t, pod, "create", "--dry-run=server", "-o", "yaml", "-f", "-")
	var shown corev1.Pod
	if err := yaml.Unmarshal([]byte(stdout), &shown); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	expectWire(t, &shown, backend)
	if strings.Contains(stderr, "Warning") {
		t.Errorf("a wired pod comes with %q", stderr)
	}
	if _, err := env.kube.CoreV1().Pods(namespace).Get(t.Context(), "shown", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod was created (error %v)", err)
	}
}

// TestWarnings asserts that whoever creates a pod by hand is told why it is not wired, and which of several backends it
// got, where somebody should act.
func TestWarnings(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	backend := newBackend(namespace, "b")
	backend.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{
		Provider: v1alpha1.StorageProviderLMCacheServer, Ownership: v1alpha1.StorageOwnershipManaged,
	}
	createBackend(t, backend)
	pod := newPod(namespace, "unwired")
	pod.APIVersion, pod.Kind = "v1", "Pod"
	_, stderr := kubectl(t, pod, "create", "-f", "-")
	want := fmt.Sprintf("Warning: not wired to a cache: %s/b has published no status.endpoint yet; recreate the pod once it has", namespace)
	if strings.TrimSpace(stderr) != want {
		t.Errorf("got %q, want %q", stderr, want)
	}

	createBackend(t, newBackend(namespace, "a"))
	pod.Name = "two-of-them"
	_, stderr = kubectl(t, pod, "create", "-f", "-")
	if want := "Warning: several CacheBackends select this pod: a is taken as the first by name, not b"; strings.TrimSpace(stderr) != want {
		t.Errorf("got %q, want %q", stderr, want)
	}

	pod.Name, pod.Labels = "no-engine", nil
	if _, stderr = kubectl(t, pod, "create", "-f", "-"); stderr != "" {
		t.Errorf("a pod that no backend selects comes with %q", stderr)
	}
}

// TestNativeSidecar asserts that the worker beside an SGLang engine arrives as a container that starts before the engine
// and runs on: a cluster that dropped its restart policy would wait for its end for ever.
func TestNativeSidecar(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	backend := newBackend(namespace, "a")
	backend.Spec.Runtime = v1alpha1.RuntimeSGLang
	createBackend(t, backend)
	pod := newPod(namespace, "sglang")
	pod.Spec.Containers[0].Name = "sglang"
	createDecided(t, pod, forReal)

	eventually(t, "the pod is ready", func(ctx context.Context) (err error) {
		if pod, err = env.kube.CoreV1().Pods(namespace).Get(ctx, "sglang", metav1.GetOptions{}); err == nil && !ready(pod) {
			err = fmt.Errorf("conditions %+v", pod.Status.Conditions)
		}
		return err
	})
	if len(pod.Spec.InitContainers) != 1 || len(pod.Status.InitContainerStatuses) != 1 {
		t.Fatalf("got init containers %+v", pod.Spec.InitContainers)
	}
	worker, status := pod.Spec.InitContainers[0], pod.Status.InitContainerStatuses[0]
	if worker.Name != "lmcache-mp-worker" || worker.RestartPolicy == nil || *worker.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("the worker is %+v", worker)
	}
	if status.State.Running == nil || status.Started == nil || !*status.Started {
		t.Errorf("the worker does not run beside the engine: %+v", status)
	}
}
