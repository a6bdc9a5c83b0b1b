// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/wiringcases"
)

// enginePod is a pod with one container of a name, and args.
func enginePod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "engine:1", Args: args}}}}
}

// mustWire wires a pod, twice.
func mustWire(t *testing.T, adapter Adapter, pod *corev1.Pod, wiring Wiring, subscriber Subscriber) *corev1.Pod {
	t.Helper()
	wired, err := Wire(adapter, pod, wiring, subscriber)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Wire(adapter, wired, wiring, subscriber)
	if err != nil {
		t.Fatalf("wiring again: %v", err)
	}
	if err := wiringcases.CheckUnchanged(wired, again); err != nil {
		t.Error(err)
	}
	return wired
}

// mustReject wants an error that contains a text.
func mustReject(t *testing.T, adapter Adapter, pod *corev1.Pod, wiring Wiring, want string) {
	t.Helper()
	wired, err := Wire(adapter, pod, wiring, Subscriber{Image: "subscriber:1"})
	var rejected *RejectedError
	if wired != nil || !errors.As(err, &rejected) || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "adapter rejected") || rejected.Adapter != adapter.Name() {
		t.Errorf("error is %v, want a rejection with %q", err, want)
	}
}

func TestWireRejects(t *testing.T) {
	t.Parallel()
	two := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers("server", "logger")}}
	lm := func(endpoint string) Wiring {
		return Wiring{Binding: &binding.Binding{Protocol: binding.ProtocolLM, Endpoint: endpoint}}
	}
	mustReject(t, vllmLMCache, two, Wiring{}, "vllm")
	mustReject(t, sglangLMCache, two, Wiring{}, "sglang")
	mustReject(t, sglangHiCache, two, Wiring{}, "sglang")
	mustReject(t, vllmLMCache, enginePod("vllm"), lm(""), "no endpoint")
	mustReject(t, sglangLMCache, enginePod("sglang"), lm("h:1"), "lm")
	mustReject(t, sglangHiCache, enginePod("sglang"), lm("h:1"), "lm")
}

// TestUnwiredCases holds the wiring to the cases in which it is what fails.
func TestUnwiredCases(t *testing.T) {
	t.Parallel()
	cases, err := wiringcases.Load("../../../testdata/engine-wiring-cases")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range cases {
		if c.Expect.Reason != "adapter-rejected" && c.Expect.Reason != "events-only-unwired" {
			continue
		}
		checked++
		adapter, _ := Lookup(c.Backend.Spec.Runtime, c.Backend.Spec.Type)
		wired, err := Wire(adapter, c.Pod, wiringOf(*c.Backend), Subscriber{Image: c.Options.SubscriberImage})
		var rejected *RejectedError
		if wired != nil || errors.As(err, &rejected) != (c.Expect.Reason == "adapter-rejected") ||
			errors.Is(err, ErrNothingToWire) != (c.Expect.Reason == "events-only-unwired") {
			t.Errorf("%s: error is %v, want %s", c.Name, err, c.Expect.Reason)
		}
	}
	if checked < 9 {
		t.Errorf("only %d cases were checked", checked)
	}
}

func TestEventsOnly(t *testing.T) {
	t.Parallel()
	events := Wiring{Mode: v1alpha1.IntegrationModeEventsOnly, ModelID: "lab/model", KernelCheck: v1alpha1.KernelCheckStrict,
		EngineHostNetwork: true, Overrides: Overrides{Args: []string{"--x"}}}
	subscriber := Subscriber{Image: "subscriber:1"}
	planted := func(names ...string) *corev1.Pod {
		pod := enginePod("server")
		pod.Spec.InitContainers = containers(names...)
		return pod
	}
	own := func(change func(*corev1.Container)) *corev1.Pod {
		pod := planted()
		container := subscriberContainer(vllmLMCache, events, subscriber)
		change(&container)
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		return pod
	}
	tests := []struct {
		name       string
		adapter    Adapter
		pod        *corev1.Pod
		wiring     Wiring
		subscriber Subscriber
		init       []string
		unwired    bool
	}{
		{name: "vllm", adapter: vllmLMCache, pod: planted("fetch", "lmcache-kernel-check"), wiring: events, subscriber: subscriber, init: []string{"fetch"}},
		{name: "sglang keeps the container", adapter: sglangLMCache, pod: planted("lmcache-kernel-check"), wiring: events, subscriber: subscriber,
			init: []string{"lmcache-kernel-check"}},
		{name: "hicache", adapter: sglangHiCache, pod: planted(), wiring: events, subscriber: subscriber},
		{name: "no image", adapter: vllmLMCache, pod: planted(), wiring: events, unwired: true},
		{name: "no model", adapter: vllmLMCache, pod: planted(), wiring: Wiring{Mode: events.Mode}, subscriber: subscriber, unwired: true},
		{name: "own subscriber", adapter: vllmLMCache, pod: own(func(*corev1.Container) {}), wiring: events, subscriber: subscriber},
		{name: "own subscriber, amended", adapter: vllmLMCache, pod: own(func(c *corev1.Container) { c.ImagePullPolicy = "Always" }), wiring: events, subscriber: subscriber},
		{name: "other image", adapter: vllmLMCache, pod: own(func(c *corev1.Container) { c.Image = "mine:1" }), wiring: events, subscriber: subscriber, unwired: true},
		{name: "other args", adapter: vllmLMCache, pod: own(func(c *corev1.Container) { c.Args[1] = "--server=mine" }), wiring: events, subscriber: subscriber, unwired: true},
		{name: "own subscriber, but none is added any more", adapter: vllmLMCache, pod: own(func(*corev1.Container) {}), wiring: events, unwired: true},
		{name: "the name is an init container's", adapter: vllmLMCache, pod: planted("kvevent-subscriber"), wiring: events, subscriber: subscriber, unwired: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.unwired {
				if wired, err := Wire(tt.adapter, tt.pod, tt.wiring, tt.subscriber); wired != nil || !errors.Is(err, ErrNothingToWire) {
					t.Errorf("error is %v, want that there is nothing to wire", err)
				}
				return
			}
			wired := mustWire(t, tt.adapter, tt.pod, tt.wiring, tt.subscriber)
			want := tt.pod.DeepCopy()
			want.Spec.InitContainers = containers(tt.init...)
			if len(want.Spec.Containers) == 1 {
				want.Spec.Containers = append(want.Spec.Containers, subscriberContainer(tt.adapter, tt.wiring, tt.subscriber))
			}
			if diff := cmp.Diff(want, wired, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubscriberGates(t *testing.T) {
	t.Parallel()
	wiring := Wiring{ModelID: "lab/model"}
	subscriber := Subscriber{Image: "subscriber:1"}
	reserved := enginePod("vllm")
	reserved.Spec.InitContainers = containers("kvevent-subscriber")
	tests := []struct {
		name       string
		pod        *corev1.Pod
		wiring     Wiring
		subscriber Subscriber
		want       bool
	}{
		{name: "both", pod: enginePod("vllm"), wiring: wiring, subscriber: subscriber, want: true},
		{name: "no image", pod: enginePod("vllm"), wiring: wiring},
		{name: "no model", pod: enginePod("vllm"), subscriber: subscriber},
		{name: "the name is an init container's", pod: reserved, wiring: wiring, subscriber: subscriber},
	}
	for _, tt := range tests {
		wired := mustWire(t, vllmLMCache, tt.pod, tt.wiring, tt.subscriber)
		if got := hasContainer(wired.Spec.Containers, ContainerSubscriber); got != tt.want {
			t.Errorf("%s: there is a subscriber: %v, want %v", tt.name, got, tt.want)
		}
		if wired.Spec.Containers[0].Args == nil {
			t.Errorf("%s: the engine is not wired", tt.name)
		}
	}
}

func TestSubscriberArgs(t *testing.T) {
	t.Parallel()
	offload := []string{
		"--engine-endpoint=tcp://127.0.0.1:5557", "--server=" + DefaultServerAddress, "--replica-id=$(POD_NAME)",
		"--tenant-id=$(POD_NAMESPACE)", "--model-id= lab/model $(X)", "--hash-scheme=vllm", "--ignore-block-removed=true",
	}
	wiring := Wiring{ModelID: " lab/model $(X)"}
	if diff := cmp.Diff(offload, subscriberArgs(vllmLMCache, wiring, Subscriber{})); diff != "" {
		t.Errorf("offload (-want +got):\n%s", diff)
	}
	wiring.Mode = v1alpha1.IntegrationModeEventsOnly
	for _, adapter := range []Adapter{sglangLMCache, sglangHiCache} {
		args := subscriberArgs(adapter, wiring, Subscriber{ServerAddress: "mine:1"})
		if len(args) != 6 || args[1] != "--server=mine:1" || args[5] != "--hash-scheme=sglang" {
			t.Errorf("%s: arguments %q", adapter.Name(), args)
		}
	}
}

// BenchmarkWire wires a pod of ordinary size, per adapter.
func BenchmarkWire(b *testing.B) {
	wirings := map[string]Wiring{
		vllmLMCache.Name(): {FailOpen: true, ModelID: "lab/model", KernelCheck: v1alpha1.KernelCheckStrict,
			Binding:   &binding.Binding{Protocol: binding.ProtocolLM, Endpoint: "kvpool.team.svc.cluster.local:65432"},
			Overrides: Overrides{Args: []string{"--max-model-len", "16384"}, SuppressEnv: []string{"LMCACHE_LOCAL_CPU"}}},
		sglangLMCache.Name(): {FailOpen: true, ModelID: "lab/model",
			Binding: &binding.Binding{Protocol: binding.ProtocolRESP, Endpoint: "sgpool.team.svc.cluster.local:6379"},
			LMCache: LMCache{HostMemory: new(resource.MustParse("32Gi"))}},
		sglangHiCache.Name(): {FailOpen: true, ModelID: "lab/model", HiCache: &HiCache{Ratio: "2.0"},
			MatchLabels: map[string]string{"serve": "nova"}},
	}
	for _, adapter := range adapters {
		b.Run(adapter.Name(), func(b *testing.B) {
			pod := enginePod(adapter.ContainerName(), "--model", "lab/model", "--port", "8000", "--tp", "2")
			pod.Spec.Containers[0].Env = variables("HF_HOME=/models\nLOG=info\nNCCL_DEBUG=warn")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Wire(adapter, pod, wirings[adapter.Name()], Subscriber{Image: "subscriber:1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
