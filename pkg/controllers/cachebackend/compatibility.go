// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// crashLoopBackOff is the reason with which the kubelet waits before it starts a container
// again.
const crashLoopBackOff = "CrashLoopBackOff"

// CrashLoop is an engine that keeps crashing.
type CrashLoop struct {
	Pod       string
	UID       types.UID
	Container string
	// Announced says that an event has covered the pod before: a container that flaps
	// between running and waiting is one story.
	Announced bool
}

// readCrashLoop says whether the engine of a pod keeps crashing. Of containers whose part
// is not known it says nothing.
func readCrashLoop(pod *corev1.Pod, engineName string) (CrashLoop, bool) {
	container := engine.EngineContainer(&pod.Spec, engineName)
	if container == nil {
		return CrashLoop{}, false
	}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.Name == container.Name && status.State.Waiting != nil && status.State.Waiting.Reason == crashLoopBackOff {
			return CrashLoop{Pod: pod.Name, UID: pod.UID, Container: container.Name}, true
		}
	}
	return CrashLoop{}, false
}

// reportCompatibility publishes that wired engines keep crashing. It is advice and lowers
// nothing: a crash has many causes.
func (p *pass) reportCompatibility() {
	wired := p.observation.Wired
	switch {
	case !wired.Listed:
	case len(wired.CrashLooping) == 0:
		p.remove(v1alpha1.ConditionEngineCompatibility)
	default:
		p.set(v1alpha1.ConditionEngineCompatibility, false, v1alpha1.ReasonInjectedEngineCrashLooping, crashLoopMessage(wired.CrashLooping))
	}
}

func crashLoopMessage(loops []CrashLoop) string {
	first := loops[0]
	others := ""
	if len(loops) > 1 {
		others = fmt.Sprintf(" and %d more", len(loops)-1)
	}
	return fmt.Sprintf("Container %s of pod %s%s keeps crashing since it was wired. This is not a proven cause: the image, the command, "+
		"a missing secret or dependency, or too little memory can be it too; read the engine's log. If the engine cannot work with a KV "+
		"connector, as hybrid-attention models cannot, set spec.integration.mode: EventsOnly, which keeps routing; the annotation %s "+
		"would end routing too.", first.Container, first.Pod, others, v1alpha1.AnnotationSkipInject)
}
