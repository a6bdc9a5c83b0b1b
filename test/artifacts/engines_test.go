// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/admission/pod"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// engineSample is a Deployment of engines, and the sample that selects its pods.
type engineSample struct {
	file       string
	deployment *appsv1.Deployment
	backend    *v1alpha1.CacheBackend
}

func (e engineSample) pod() *corev1.Pod {
	template := e.deployment.Spec.Template.DeepCopy()
	template.Namespace = e.deployment.Namespace
	return &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}

// adapter is that of the backend.
func (e engineSample) adapter(t *testing.T) engine.Adapter {
	t.Helper()
	adapter, found := engine.Lookup(e.backend.Spec.Runtime, e.backend.Spec.Type)
	if !found {
		t.Fatalf("%s: no adapter", e.backend.Name)
	}
	return adapter
}

// engines are the samples of engines, each with the one backend that selects it.
func engines(t *testing.T) []engineSample {
	t.Helper()
	s := newScheme(t)
	if err := appsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	var all []engineSample
	for _, d := range readDocuments(t, glob(t, "samples/engines/*.yaml")...) {
		file := filepath.Base(d.file)
		deployment, ok := d.decode(t, s).(*appsv1.Deployment)
		if !ok {
			t.Fatalf("%s: not a Deployment", file)
		}
		var selecting []*v1alpha1.CacheBackend
		for _, backend := range backends(t, s) {
			selector := labels.SelectorFromSet(backend.Spec.EngineSelector.MatchLabels)
			if selector.Matches(labels.Set(deployment.Spec.Template.Labels)) {
				selecting = append(selecting, backend)
			}
		}
		if len(selecting) != 1 {
			t.Fatalf("%s: %d samples select its pods, want 1", file, len(selecting))
		}
		all = append(all, engineSample{file: file, deployment: deployment, backend: selecting[0]})
	}
	return all
}

// TestEnginesAreWired sends every sample through the webhook's decision, as the control plane is today: nobody provisions
// a tier, so a managed one has no endpoint.
func TestEnginesAreWired(t *testing.T) {
	s := newScheme(t)
	var store fixedBackends
	for _, backend := range backends(t, s) {
		s.Default(backend)
		var hub inferencecache.CacheBackend
		if err := s.Convert(backend, &hub, nil); err != nil {
			t.Fatal(err)
		}
		if storage := hub.Spec.RemoteStorage; storage != nil && storage.Ownership == inferencecache.StorageOwnershipExternal {
			hub.Status.Endpoint = storage.Endpoint
		}
		store = append(store, hub)
	}
	decider := &pod.Decider{Backends: store, Subscriber: engine.Subscriber{Image: "registry.example.com/subscriber:v1"}}
	for _, e := range engines(t) {
		before := e.pod()
		decision := decider.Decide(t.Context(), before, samplesNamespace)
		outcome, reason, warnings := pod.Wired, pod.ReasonWired, 0
		if storage := e.backend.Spec.RemoteStorage; storage != nil && storage.Ownership == v1alpha1.StorageOwnershipManaged {
			outcome, reason, warnings = pod.Unwired, pod.ReasonEndpointMissing, 1
		}
		if decision.Outcome != outcome || decision.Reason != reason || len(decision.Warnings) != warnings {
			t.Errorf("%s: %s, %s (%s) with warnings %q; want %s, %s",
				e.file, decision.Outcome, decision.Reason, decision.Message, decision.Warnings, outcome, reason)
		}
		if want := samplesNamespace + "/" + e.backend.Name; decision.Backend != want {
			t.Errorf("%s: backend %q, want %q", e.file, decision.Backend, want)
		}
		if diff := cmp.Diff(e.pod(), before); diff != "" {
			t.Errorf("%s: the pod was changed (-before +after):\n%s", e.file, diff)
		}
	}
}

// fixedBackends is a store that holds the same in every namespace.
type fixedBackends []inferencecache.CacheBackend

func (f fixedBackends) InNamespace(context.Context, string) ([]inferencecache.CacheBackend, error) {
	return f, nil
}

// TestEnginesShowEveryWire: a pair of engine and cache without an engine to try it on is half a sample.
func TestEnginesShowEveryWire(t *testing.T) {
	shown := map[string]bool{}
	for _, e := range engines(t) {
		shown[engine.Pair{Runtime: e.backend.Spec.Runtime, Type: e.backend.Spec.Type}.String()] = true
		if integration := e.backend.Spec.Integration; integration != nil {
			shown["events only"] = shown["events only"] || integration.Mode == v1alpha1.IntegrationModeEventsOnly
			shown["host network"] = shown["host network"] || integration.EngineHostNetwork
		}
		if storage := e.backend.Spec.RemoteStorage; storage != nil {
			shown[string(storage.Ownership)] = true
		} else {
			shown["host memory"] = true
		}
	}
	want := []string{"events only", "host memory", "host network", "External", "Managed"}
	for _, pair := range engine.SupportedPairs() {
		want = append(want, pair.String())
	}
	for _, what := range want {
		if !shown[what] {
			t.Errorf("no engine shows %s", what)
		}
	}
}

func TestEnginesAreDeployable(t *testing.T) {
	names := map[string]string{}
	for _, backend := range backends(t, newScheme(t)) {
		names[backend.Name] = "a CacheBackend, whose workload has its name"
	}
	for _, e := range engines(t) {
		d := e.deployment
		if d.Namespace != samplesNamespace {
			t.Errorf("%s: namespace %q", e.file, d.Namespace)
		}
		if other, ok := names[d.Name]; ok {
			t.Errorf("%s: %s is the name of %s", e.file, d.Name, other)
		}
		names[d.Name] = e.file
		if d.Spec.Replicas == nil || *d.Spec.Replicas != 1 {
			t.Errorf("%s: want one replica", e.file)
		}
		if diff := cmp.Diff(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels); diff != "" || len(d.Spec.Template.Labels) == 0 {
			t.Errorf("%s: labels of the pods (-selector +pods):\n%s", e.file, diff)
		}
		if diff := cmp.Diff(e.backend.Spec.EngineSelector.MatchLabels, d.Spec.Template.Labels); diff != "" {
			t.Errorf("%s: labels of the pods (-backend +pods):\n%s", e.file, diff)
		}
		if got := flagsOf(d)["--model-path"]; got != "" && got != e.backend.Spec.Observation.ModelID {
			t.Errorf("%s: serves %s, is indexed as %s", e.file, got, e.backend.Spec.Observation.ModelID)
		} else if command := d.Spec.Template.Spec.Containers[0].Command; got == "" && !slices.Contains(command, e.backend.Spec.Observation.ModelID) {
			t.Errorf("%s: does not serve %s", e.file, e.backend.Spec.Observation.ModelID)
		}
		// Two pods cannot have one port of one node.
		if integration := e.backend.Spec.Integration; integration != nil && integration.EngineHostNetwork &&
			d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("%s: strategy %q on the host network", e.file, d.Spec.Strategy.Type)
		}
	}
}

// flagsOf reads the arguments of a Deployment's first container, --flag=value or two arguments.
func flagsOf(d *appsv1.Deployment) map[string]string {
	flags := map[string]string{}
	args := d.Spec.Template.Spec.Containers[0].Args
	for i, arg := range args {
		name, value, found := strings.Cut(arg, "=")
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		if !found && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		flags[name] = value
	}
	return flags
}

// TestEnginesFitTheirNodes: all of them together fit one node of the local cluster, each takes one GPU.
func TestEnginesFitTheirNodes(t *testing.T) {
	const gpu = corev1.ResourceName("nvidia.com/gpu")
	node := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		gpu:                   resource.MustParse("8"),
	}
	total := corev1.ResourceList{}
	for _, e := range engines(t) {
		resources := e.deployment.Spec.Template.Spec.Containers[0].Resources
		for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
			if got := list[gpu]; got.Value() != 1 {
				t.Errorf("%s: %s GPUs, want 1", e.file, got.String())
			}
		}
		for name, quantity := range resources.Requests {
			sum := total[name]
			sum.Add(quantity)
			total[name] = sum
		}
	}
	for name, quantity := range total {
		if available := node[name]; quantity.Cmp(available) > 0 {
			t.Errorf("%s: %s in all, a node has %s", name, quantity.String(), available.String())
		}
	}
}

// TestEnginesLeaveTheWireAlone: an engine that sets what is injected hides whether it is.
func TestEnginesLeaveTheWireAlone(t *testing.T) {
	for _, e := range engines(t) {
		template := e.deployment.Spec.Template
		if len(template.Annotations) != 0 {
			t.Errorf("%s: annotations %v", e.file, template.Annotations)
		}
		spec := template.Spec
		if spec.HostNetwork || spec.DNSPolicy != "" || len(spec.Volumes)+len(spec.InitContainers) != 0 {
			t.Errorf("%s: host network, DNS policy, volumes or init containers", e.file)
		}
		if len(spec.Containers) != 1 {
			t.Fatalf("%s: %d containers, want 1", e.file, len(spec.Containers))
		}
		adapter, container := e.adapter(t), spec.Containers[0]
		if container.Name != adapter.ContainerName() {
			t.Errorf("%s: container %s, want %s", e.file, container.Name, adapter.ContainerName())
		}
		if len(container.Env)+len(container.EnvFrom)+len(container.VolumeMounts) != 0 {
			t.Errorf("%s: variables or mounts", e.file)
		}
		flags := flagsOf(e.deployment)
		for _, pair := range engine.SupportedPairs() {
			of, _ := engine.Lookup(pair.Runtime, pair.Type)
			for _, reserved := range of.ReservedArgs() {
				if _, ok := flags[reserved]; ok || slices.Contains(container.Command, reserved) {
					t.Errorf("%s: sets %s", e.file, reserved)
				}
			}
		}
		// Variables of Services would reach the engine as its own settings.
		if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
			t.Errorf("%s: has service links", e.file)
		}
	}
}

// TestEnginesPublishEvents: that is the one thing which nobody adds.
func TestEnginesPublishEvents(t *testing.T) {
	for _, e := range engines(t) {
		var config struct {
			Enable                     bool `json:"enable_kv_cache_events"`
			Publisher, Endpoint, Topic string
		}
		if err := json.Unmarshal([]byte(flagsOf(e.deployment)["--kv-events-config"]), &config); err != nil {
			t.Errorf("%s: --kv-events-config: %v", e.file, err)
			continue
		}
		if config.Publisher != "zmq" || config.Endpoint != "tcp://*:5557" || config.Topic != "kv-events" {
			t.Errorf("%s: not what the subscriber listens to: %+v", e.file, config)
		}
		if vllm := e.backend.Spec.Runtime == v1alpha1.RuntimeVLLM; config.Enable != vllm {
			t.Errorf("%s: enable_kv_cache_events is %v", e.file, config.Enable)
		}
		// The subscriber reads the engine's metrics there.
		if got := flagsOf(e.deployment)["--port"]; got != "8000" {
			t.Errorf("%s: serves on port %q, want 8000", e.file, got)
		}
	}
}

// TestNamespaceTakesWhatIsInjected: the host network is for privileged namespaces only.
func TestNamespaceTakesWhatIsInjected(t *testing.T) {
	var namespace *corev1.Namespace
	for _, sample := range samples(t, newScheme(t)) {
		if ns, ok := sample.obj.(*corev1.Namespace); ok {
			namespace = ns
		}
	}
	if namespace == nil {
		t.Fatal("no namespace")
	}
	for _, e := range engines(t) {
		integration := e.backend.Spec.Integration
		if integration == nil || !integration.EngineHostNetwork {
			continue
		}
		if got := namespace.Labels["pod-security.kubernetes.io/enforce"]; got != "privileged" {
			t.Errorf("%s: moves to the host network, and the namespace is %s", e.file, got)
		}
	}
}

// TestEnginesSayWhatTheyAreFor wants two lines of comment, as above the samples.
func TestEnginesSayWhatTheyAreFor(t *testing.T) {
	for _, d := range readDocuments(t, glob(t, "samples/engines/*.yaml")...) {
		comment, _, _ := strings.Cut(strings.TrimPrefix(string(d.yaml), licenceHeader), "apiVersion:")
		if lines := strings.Split(strings.TrimSpace(comment), "\n"); len(lines) != 2 {
			t.Errorf("%s: want two lines of comment, have %q", d.file, lines)
		}
	}
}
