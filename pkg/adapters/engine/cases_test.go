// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/wiringcases"
)

func loadWired(t testing.TB) []wiringcases.Case {
	t.Helper()
	cases, err := wiringcases.Load("../../../testdata/engine-wiring-cases")
	if err != nil {
		t.Fatal(err)
	}
	var wired []wiringcases.Case
	for _, c := range cases {
		if c.Expect.Outcome == wiringcases.Wired {
			wired = append(wired, c)
		}
	}
	if len(wired) < 35 {
		t.Fatalf("only %d of %d cases are wired", len(wired), len(cases))
	}
	return wired
}

// chosen returns the backend that a case wants the pod to be wired to.
func chosen(t testing.TB, c wiringcases.Case) v1alpha1.CacheBackend {
	t.Helper()
	for _, backend := range c.Backends() {
		if c.Expect.Annotations["inferencecache.io/injected-by"] == backend.Namespace+"/"+backend.Name {
			return backend
		}
	}
	t.Fatal("no backend is the one that the case names")
	return v1alpha1.CacheBackend{}
}

func wiringOf(backend v1alpha1.CacheBackend) Wiring {
	spec := backend.Spec
	w := Wiring{FailOpen: true, KernelCheck: backend.Annotations[v1alpha1.AnnotationKernelCheck]}
	if spec.EngineSelector != nil {
		w.MatchLabels = spec.EngineSelector.MatchLabels
	}
	w.Autoscaling = spec.Autoscaling != nil
	if spec.Observation != nil {
		w.ModelID = spec.Observation.ModelID
	}
	if integration := spec.Integration; integration != nil {
		w.Mode, w.Role, w.EngineHostNetwork = integration.Mode, integration.Role, integration.EngineHostNetwork
		if integration.FailOpen != nil {
			w.FailOpen = *integration.FailOpen
		}
		if overrides := integration.EngineOverrides; overrides != nil {
			w.Overrides = Overrides{
				Args: overrides.Args, SuppressArgs: overrides.SuppressArgs,
				Env: overrides.Env, SuppressEnv: overrides.SuppressEnv,
			}
		}
	}
	if lm := spec.LMCache; lm != nil {
		w.LMCache = LMCache{
			ChunkSizeTokens: lm.ChunkSizeTokens, WorkerImage: lm.WorkerImage,
			WorkerPort: lm.WorkerPort, RemoteSerde: lm.RemoteSerde,
		}
		if lm.HostMemory != nil {
			w.LMCache.HostMemory = lm.HostMemory.Capacity
		}
	}
	if hi := spec.HiCache; hi != nil {
		w.HiCache = &HiCache{
			SizeGB: hi.SizeGB, Ratio: hi.Ratio,
			WritePolicy: hi.WritePolicy, IOBackend: hi.IOBackend, MemoryLayout: hi.MemoryLayout,
		}
	}
	w.Binding = bindingOf(backend)
	return w
}

func bindingOf(backend v1alpha1.CacheBackend) *binding.Binding {
	remote := backend.Spec.RemoteStorage
	if remote == nil {
		return nil
	}
	protocol, _ := binding.ProtocolOf(remote.Provider)
	endpoint := backend.Status.Endpoint
	if remote.Ownership == v1alpha1.StorageOwnershipExternal {
		endpoint = remote.Endpoint
	}
	return &binding.Binding{Protocol: protocol, Endpoint: strings.TrimSpace(endpoint)}
}

// TestWiredCases wires the pod of every case that is wired, and the result once more.
func TestWiredCases(t *testing.T) {
	t.Parallel()
	for _, c := range loadWired(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			backend := chosen(t, c)
			adapter, found := Lookup(backend.Spec.Runtime, backend.Spec.Type)
			if !found {
				t.Fatal("there is no adapter")
			}
			subscriber := Subscriber{Image: c.Options.SubscriberImage, ServerAddress: c.Options.PolicyServerAddress}
			wire := func(pod *corev1.Pod) *corev1.Pod {
				t.Helper()
				wired, err := Wire(adapter, pod, wiringOf(backend), subscriber)
				if err != nil {
					t.Fatalf("%s: %v", c.Comment, err)
				}
				return wired
			}

			first := wire(c.Pod)
			stamped := first.DeepCopy()
			// Annotations are not the adapters' business.
			stamped.Annotations = maps.Clone(c.Expect.Annotations)
			if err := (wiringcases.Form{}).Check(c, stamped); err != nil {
				t.Errorf("%s: %v", c.Comment, err)
			}
			if err := wiringcases.CheckUnchanged(first, wire(first)); err != nil {
				t.Error(err)
			}
		})
	}
}
