// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Wiring is what a backend asks of an engine pod, as plain values. It may stem from an
// object that was stored under laxer rules, so nothing in it is taken to be valid.
type Wiring struct {
	// Mode and Role may be empty, which means Offload and ReadWrite.
	Mode v1alpha1.IntegrationMode
	Role v1alpha1.IntegrationRole
	// FailOpen is true unless the backend says otherwise.
	FailOpen bool
	// Binding is nil without a remote tier; its endpoint is set otherwise.
	Binding           *binding.Binding
	EngineHostNetwork bool
	LMCache           LMCache
	// HiCache is nil when the backend says nothing about it.
	HiCache   *HiCache
	Overrides Overrides
	// KernelCheck is the value of the annotation, one of v1alpha1's KernelCheck values.
	// Anything else means auto.
	KernelCheck string
	// ModelID is the name under which the engine's KV events are indexed. Without it there
	// is no subscriber.
	ModelID string

	// MatchLabels and Autoscaling are for HiCache alone, which checks stored objects again.
	MatchLabels map[string]string
	Autoscaling bool
}

// LMCache configures LMCache inside an engine.
type LMCache struct {
	ChunkSizeTokens *int32
	HostMemory      *resource.Quantity
	WorkerImage     string
	WorkerPort      *int32
	RemoteSerde     string
}

// HiCache configures SGLang's own cache.
type HiCache struct {
	SizeGB       *int32
	Ratio        string
	WritePolicy  v1alpha1.HiCacheWritePolicy
	IOBackend    v1alpha1.HiCacheIOBackend
	MemoryLayout v1alpha1.HiCacheMemoryLayout
}

// Overrides amends the arguments and the environment that are injected.
type Overrides struct {
	Args         []string
	SuppressArgs []string
	Env          []corev1.EnvVar
	SuppressEnv  []string
}

// Subscriber says which KV-event subscriber is added to engine pods.
type Subscriber struct {
	// Image is empty when there is none.
	Image string
	// ServerAddress is where the events go, DefaultServerAddress when empty.
	ServerAddress string
}

// RejectedError says why an adapter cannot wire a pod.
type RejectedError struct {
	// Adapter is the name of the adapter.
	Adapter string
	// Reason says what in the pod or in the backend stands in the way.
	Reason string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("adapter rejected the pod: %s: %s", e.Adapter, e.Reason)
}

// ErrNothingToWire is the error for a backend with events only, when the pod has no
// subscriber of ours and gets none.
var ErrNothingToWire = errors.New("events-only: there is no KV-event subscriber to add")

// Wire returns a copy of a pod, wired as the backend asks. The pod itself is not changed.
// Wiring the result again with the same input changes nothing, provided that the overrides
// leave alone what the adapter reserves, as validation sees to. The error is a
// *RejectedError or ErrNothingToWire, and then there is no result.
func Wire(adapter Adapter, pod *corev1.Pod, wiring Wiring, subscriber Subscriber) (*corev1.Pod, error) {
	wired := pod.DeepCopy()
	if wiring.Mode == v1alpha1.IntegrationModeEventsOnly {
		if err := wireEvents(adapter, &wired.Spec, wiring, subscriber); err != nil {
			return nil, err
		}
		return wired, nil
	}
	if err := wireOffload(adapter, &wired.Spec, wiring); err != nil {
		return nil, &RejectedError{Adapter: adapter.Name(), Reason: err.Error()}
	}
	addSubscriber(adapter, &wired.Spec, wiring, subscriber)
	return wired, nil
}

// wireEvents touches no engine, and so needs none.
func wireEvents(adapter Adapter, spec *corev1.PodSpec, wiring Wiring, subscriber Subscriber) error {
	if adapter.HasKernelCheck() {
		removeKernelCheck(spec)
	}
	if !addSubscriber(adapter, spec, wiring, subscriber) {
		return ErrNothingToWire
	}
	return nil
}

func wireOffload(adapter Adapter, spec *corev1.PodSpec, wiring Wiring) error {
	if err := checkBinding(adapter, wiring.Binding); err != nil {
		return err
	}
	if err := checkOverrides(wiring.Overrides); err != nil {
		return err
	}
	container := EngineContainer(spec, adapter.ContainerName())
	if container == nil {
		return fmt.Errorf("which container is the engine cannot be told; name it %s", adapter.ContainerName())
	}
	template := container.DeepCopy()
	if err := adapter.inject(spec, container, wiring); err != nil {
		return err
	}
	applyOverrides(template, container, wiring.Overrides)
	if adapter.HasKernelCheck() {
		setKernelCheck(spec, container, wiring.KernelCheck)
	}
	return nil
}

// checkBinding refuses what callers are expected to have refused with a better reason.
func checkBinding(adapter Adapter, b *binding.Binding) error {
	switch {
	case !adapter.SupportsBinding(b) && b == nil:
		return errors.New("the engine needs a remote tier")
	case !adapter.SupportsBinding(b):
		return fmt.Errorf("the engine does not support a remote tier that speaks %s", b.Protocol)
	case b != nil && b.Endpoint == "":
		return errors.New("the remote tier has no endpoint")
	}
	return nil
}
