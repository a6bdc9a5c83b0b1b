// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// What the kernel check writes as its last words.
const (
	kernelsLoaded     = "OK"
	kernelsFailPrefix = "FAIL:"
)

// KernelCheck is what the kernel check of an engine pod came to.
type KernelCheck struct {
	Pod     string
	Outcome KernelOutcome
	// Strict says that a failure keeps the pod from starting. The mode is that of the pod:
	// the backend may ask for another one of new pods.
	Strict bool
	// Message is what the check has said, and ExitCode and Reason how it ended.
	Message  string
	ExitCode int32
	Reason   string
}

// KernelOutcome says how a kernel check ended.
type KernelOutcome int

// The outcomes, the worst last.
const (
	KernelsLoad KernelOutcome = iota
	KernelsPending
	KernelsUnknown
	KernelsFail
)

// readKernelCheck reads the kernel check of a pod. It returns false when the pod has none.
func readKernelCheck(pod *corev1.Pod) (KernelCheck, bool) {
	i := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == engine.ContainerKernelCheck })
	if i < 0 {
		return KernelCheck{}, false
	}
	check := KernelCheck{Pod: pod.Name, Outcome: KernelsPending, Strict: slices.ContainsFunc(pod.Spec.InitContainers[i].Env, func(env corev1.EnvVar) bool {
		return env.Name == engine.EnvKernelCheckStrict && env.Value == "1"
	})}
	ended := terminated(pod.Status.InitContainerStatuses, engine.ContainerKernelCheck)
	if ended == nil {
		return check, true
	}
	check.Message, check.ExitCode, check.Reason = strings.TrimSpace(ended.Message), ended.ExitCode, ended.Reason
	switch {
	case strings.HasPrefix(check.Message, kernelsFailPrefix):
		check.Outcome = KernelsFail
	case check.Message == kernelsLoaded && check.ExitCode == 0:
		check.Outcome = KernelsLoad
	default:
		check.Outcome = KernelsUnknown
	}
	return check, true
}

// terminated is how a container has ended, now or the last time; nil when it never has.
func terminated(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStateTerminated {
	for i := range statuses {
		if statuses[i].Name == name {
			if ended := statuses[i].State.Terminated; ended != nil {
				return ended
			}
			return statuses[i].LastTerminationState.Terminated
		}
	}
	return nil
}

// passKernels publishes whether the engines' native kernels load, and returns what is left
// of Ready: a strict check that failed keeps engines from starting, however well the rest
// is. What could not be read leaves standing what was known.
func (p *pass) passKernels(upstream verdict) verdict {
	wired := p.observation.Wired
	if !wired.Listed {
		if stored := find(p.stored, v1alpha1.ConditionReady); is(stored, metav1.ConditionFalse, v1alpha1.ReasonEngineKernelDegraded) {
			return notReady(stored.Reason, "%s", stored.Message)
		}
		return upstream
	}
	if len(wired.Kernels) == 0 {
		p.remove(v1alpha1.ConditionEngineKernelsHealthy)
		return upstream
	}
	worst := slices.MaxFunc(wired.Kernels, func(a, b KernelCheck) int { return int(a.Outcome - b.Outcome) })
	p.reportKernels(worst)
	if i := slices.IndexFunc(wired.Kernels, KernelCheck.blocks); i >= 0 {
		return notReady(v1alpha1.ReasonEngineKernelDegraded, "%s", cut("Engine pods cannot start and hold their GPUs meanwhile: "+
			"fix the engine image, or set the annotation "+v1alpha1.AnnotationKernelCheck+" to report-only and recreate them. "+
			firstLine(wired.Kernels[i].Message), maxForeignText))
	}
	return upstream
}

// blocks says whether the check keeps its pod from starting.
func (c KernelCheck) blocks() bool { return c.Outcome == KernelsFail && c.Strict }

// reportKernels publishes the worst of the checks, the first of its kind.
func (p *pass) reportKernels(worst KernelCheck) {
	checks := p.observation.Wired.Kernels
	count := 0
	for _, check := range checks {
		if check.Outcome == worst.Outcome {
			count++
		}
	}
	status, reason, message := metav1.ConditionTrue, v1alpha1.ReasonKernelsHealthy, ""
	switch worst.Outcome {
	case KernelsFail:
		status, reason = metav1.ConditionFalse, v1alpha1.ReasonKernelLoadFailed
		message = fmt.Sprintf("LMCache's native kernels do not load in %d of %d engine pods, %s among them: %s", count, len(checks), worst.Pod, firstLine(worst.Message))
	case KernelsUnknown:
		status, reason = metav1.ConditionUnknown, v1alpha1.ReasonKernelCheckError
		message = fmt.Sprintf("The kernel check of %d of %d engine pods ended without a result, that of %s with exit %d %s: %s",
			count, len(checks), worst.Pod, worst.ExitCode, worst.Reason, worst.Message)
	case KernelsPending:
		status, reason = metav1.ConditionUnknown, v1alpha1.ReasonKernelCheckPending
		message = fmt.Sprintf("The kernel check of %d of %d engine pods has not ended.", count, len(checks))
	default:
		message = fmt.Sprintf("LMCache's native kernels load in %d of %d engine pods.", count, len(checks))
	}
	p.setStatus(v1alpha1.ConditionEngineKernelsHealthy, status, reason, cut(strings.TrimSuffix(message, ": "), maxForeignText))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
