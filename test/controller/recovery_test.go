// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// runEngine makes a Deployment of engines, whose simulated kubelet reads the annotations, and waits until its pod is wired.
func (s *subject) runEngine(annotations map[string]string) {
	s.Helper()
	pod := newEngine("", annotations)
	template := corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	_, err := env.kube.AppsV1().Deployments(s.namespace).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "engine"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: engines}, Template: template},
	}, metav1.CreateOptions{})
	must(s.T, err)
	eventually(s.T, "the engine is wired", func(ctx context.Context) error {
		pods, err := s.pods(ctx, engines)
		if err != nil {
			return err
		}
		if len(pods) != 1 || pods[0].Annotations[v1alpha1.AnnotationInjectedBy] != s.namespace+"/"+s.name {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return nil
	})
}

func (s *subject) pods(ctx context.Context, selector map[string]string) ([]corev1.Pod, error) {
	list, err := env.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(selector).String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// server waits for the only pod of the tier, other than the former one.
func (s *subject) server(former types.UID) *corev1.Pod {
	s.Helper()
	var server corev1.Pod
	eventually(s.T, "one server is up", func(ctx context.Context) error {
		pods, err := s.pods(ctx, storage.SelectorLabels(s.name))
		if err != nil {
			return err
		}
		if len(pods) != 1 || pods[0].UID == former {
			return fmt.Errorf("there are %d", len(pods))
		}
		server = pods[0]
		return nil
	})
	return &server
}

// waitServers waits for the servers that engines are known to be connected to, and for what the engine was restarted with.
func (s *subject) waitServers(instance, trigger string) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("the servers are %q and the engine was restarted with %q", instance, trigger), func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		engine, err := env.kube.AppsV1().Deployments(s.namespace).Get(ctx, "engine", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := engine.Spec.Template.Annotations[v1alpha1.AnnotationCacheServerRestartTrigger]
		if backend.Status.ObservedServerInstance != instance || got != trigger {
			return fmt.Errorf("they are %q and %q", backend.Status.ObservedServerInstance, got)
		}
		return nil
	})
}

// patchWorkload changes the workload as an administrator does.
func (s *subject) patchWorkload(kind, patch string) {
	s.Helper()
	s.kubectl("patch", kind, s.name, "--type=merge", "-p", patch)
}

// TestServerIsReplaced: engines restart when a server that they are connected to is another one or was started again, and
// otherwise not.
func TestServerIsReplaced(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{v1alpha1.DeploymentKindDeployment, v1alpha1.DeploymentKindStatefulSet} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := create(t, deploymentKind(kind), selectsEngines)
			s.waitBackendReady()
			s.runEngine(nil)
			first := s.server("")
			s.waitServers(string(first.UID)+":0", "")

			s.kubectl("delete", "pod", first.Name)
			second := s.server(first.UID)
			replaced := string(second.UID) + ":0"
			s.waitServers(replaced, replaced)

			// A container beside the server's own is no reason.
			s.kubectl("annotate", "pod", second.Name, "fake.inferencecache.io/restart-count.proxy=1")
			s.kubectl("annotate", "pod", second.Name, "fake.inferencecache.io/restart-count.lmcache-server=1")
			restarted := string(second.UID) + ":1"
			s.waitServers(restarted, restarted)

			s.scale(2)
			s.waitBackendReady()
			eventually(t, "both servers are known", func(ctx context.Context) error {
				if got := s.backend().Status.ObservedServerInstance; strings.Count(got, ":") != 2 {
					return fmt.Errorf("they are %q", got)
				}
				return nil
			})
			s.waitServers(s.backend().Status.ObservedServerInstance, restarted)

			// The servers may be the ones that the engine was restarted for before.
			s.scale(1)
			left := s.server("")
			known := string(left.UID) + ":" + map[bool]string{true: "1", false: "0"}[left.UID == second.UID]
			again := s.waitTrigger(known, restarted)
			if !strings.HasPrefix(again, known) {
				t.Errorf("the engine was restarted with %q, not for %q", again, known)
			}

			s.scale(0)
			s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonScaledToZero)
			s.waitNoServer()
			s.touch()
			s.waitServers(known, again)
			s.scale(1)
			last := string(s.server("").UID) + ":0"
			s.waitServers(last, last)
		})
	}
}

func (s *subject) scale(replicas int32) {
	s.Helper()
	s.edit(func(b *v1alpha1.CacheBackend) { b.Spec.Replicas = &replicas })
}

func (s *subject) waitNoServer() {
	s.Helper()
	eventually(s.T, "no server is left", func(ctx context.Context) error {
		pods, err := s.pods(ctx, storage.SelectorLabels(s.name))
		if err == nil && len(pods) != 0 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
}

// waitTrigger waits until the engine was restarted with something else than before, and returns that.
func (s *subject) waitTrigger(instance, before string) (trigger string) {
	s.Helper()
	eventually(s.T, "the engine is restarted once more", func(ctx context.Context) error {
		engine, err := env.kube.AppsV1().Deployments(s.namespace).Get(ctx, "engine", metav1.GetOptions{})
		if err != nil {
			return err
		}
		trigger = engine.Spec.Template.Annotations[v1alpha1.AnnotationCacheServerRestartTrigger]
		if trigger == before {
			return errors.New("it is not")
		}
		return nil
	})
	s.waitServers(instance, trigger)
	return trigger
}

// TestRemoteTierNeverServes: what the index says of the remote tier is told, and lowers nothing.
func TestRemoteTierNeverServes(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitBackendReady()
	for _, tt := range []struct{ rate, want string }{
		{`"0"`, "True/T2ZeroHitRate"}, {`"0.15"`, "False/T2Serving"}, {"null", ""},
	} {
		s.kubectl("patch", "cachebackend", s.name, "--subresource=status", "--type=merge", "-p",
			`{"status":{"indexParticipation":{"prefixCount":1,"t2HitRate":`+tt.rate+`}}}`)
		s.waitCondition(v1alpha1.ConditionT2Degraded, tt.want)
		s.waitBackendReady()
	}
	s.waitEvents()
}

// TestRolloutIsTakenBack: while a rollout is under way the new servers do not count, so that one that is taken back leaves
// no trace.
func TestRolloutIsTakenBack(t *testing.T) {
	t.Parallel()
	s := create(t, selectsEngines)
	s.waitBackendReady()
	s.runEngine(nil)
	server := s.server("")
	s.waitServers(string(server.UID)+":0", "")

	// New pods are Ready at once and not available for an hour.
	s.patchWorkload("deployment", `{"spec":{"minReadySeconds":3600,"progressDeadlineSeconds":7200}}`)
	image := func(image string) change {
		return func(b *v1alpha1.CacheBackend) {
			b.Spec.RemoteStorage.LMCacheServer = &v1alpha1.LMCacheServerSpec{Image: image}
		}
	}
	s.edit(image("example.com/next:1"))
	eventually(t, "both servers are up", func(ctx context.Context) error {
		pods, err := s.pods(ctx, storage.SelectorLabels(s.name))
		ready := 0
		for i := range pods {
			if podIsReady(&pods[i]) {
				ready++
			}
		}
		if err == nil && ready != 2 {
			err = fmt.Errorf("%d are", ready)
		}
		return err
	})
	s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonRolloutInProgress)
	s.waitServers(string(server.UID)+":0", "")
	s.edit(image(""))
	// A server that is not available is not missed, so one must be before the other goes.
	s.patchWorkload("deployment", `{"spec":{"minReadySeconds":0,"progressDeadlineSeconds":600}}`)
	if got := s.server(""); got.UID != server.UID {
		t.Fatalf("the server is %s, not the one from before the rollout", got.Name)
	}
	s.waitBackendReady()
	s.touch()
	s.waitServers(string(server.UID)+":0", "")
}

func podIsReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitCondition waits for a condition as status/reason, or for its absence.
func (s *subject) waitCondition(conditionType, want string) *metav1.Condition {
	s.Helper()
	var condition *metav1.Condition
	eventually(s.T, fmt.Sprintf("%s is %q", conditionType, want), func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := ""
		if condition = apimeta.FindStatusCondition(backend.Status.Conditions, conditionType); condition != nil {
			got = string(condition.Status) + "/" + condition.Reason
		}
		if got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	return condition
}

// TestKernelsDoNotLoad: a check that failed is told, and keeps a backend down only if it keeps engines down.
func TestKernelsDoNotLoad(t *testing.T) {
	t.Parallel()
	const fail = "FAIL: OSError: OSError('libcudart.so.12: cannot open shared object file')"
	check := func(mode string) change {
		return func(b *v1alpha1.CacheBackend) { b.Annotations[v1alpha1.AnnotationKernelCheck] = mode }
	}
	says := map[string]string{"fake.inferencecache.io/message.lmcache-kernel-check": fail}
	t.Run("strict", func(t *testing.T) {
		t.Parallel()
		s := create(t, hostOnly, selectsEngines, check(v1alpha1.KernelCheckStrict))
		s.waitReady(metav1.ConditionTrue, v1alpha1.ReasonHostOnlyActive)
		strict := maps.Clone(says)
		strict["fake.inferencecache.io/exit-code.lmcache-kernel-check"] = "1"
		s.runEngine(strict)
		s.touch()
		if got := s.waitCondition(v1alpha1.ConditionEngineKernelsHealthy, "False/KernelLoadFailed").Message; !strings.Contains(got, fail) {
			t.Errorf("EngineKernelsHealthy says %q", got)
		}
		s.waitCondition(v1alpha1.ConditionReady, "False/EngineKernelDegraded")
		s.waitCondition(v1alpha1.ConditionProgressing, "False/EngineKernelDegraded")
		s.waitCondition(v1alpha1.ConditionDegraded, "False/NotDegraded")
		// The mode is that of the pod that was admitted, whatever the backend asks for now.
		s.edit(check(v1alpha1.KernelCheckReportOnly))
		s.touch()
		s.waitCondition(v1alpha1.ConditionReady, "False/EngineKernelDegraded")
		s.kubectl("delete", "deployment", "engine")
		s.waitCondition(v1alpha1.ConditionEngineKernelsHealthy, "")
		s.waitReady(metav1.ConditionTrue, v1alpha1.ReasonHostOnlyActive)
	})
	t.Run("report only", func(t *testing.T) {
		t.Parallel()
		s := create(t, selectsEngines, check(v1alpha1.KernelCheckReportOnly))
		s.waitBackendReady()
		s.runEngine(says)
		s.touch()
		s.waitCondition(v1alpha1.ConditionEngineKernelsHealthy, "False/KernelLoadFailed")
		s.waitBackendReady()
		// A new image cures it.
		s.kubectl("patch", "deployment", "engine", "--type=merge", "-p",
			`{"spec":{"template":{"metadata":{"annotations":{"fake.inferencecache.io/message.lmcache-kernel-check":"OK"}}}}}`)
		s.kubectl("rollout", "status", "deployment", "engine", "--timeout=2m")
		s.touch()
		s.waitCondition(v1alpha1.ConditionEngineKernelsHealthy, "True/KernelsHealthy")
	})
}

// TestEngineCrashes: a wired engine that keeps crashing is told once, whoever selects it now.
func TestEngineCrashes(t *testing.T) {
	t.Parallel()
	s := create(t, selectsEngines)
	s.waitBackendReady()
	s.runEngine(map[string]string{"fake.inferencecache.io/crash-loop.vllm": "true"})
	s.touch()
	if got := s.waitCondition(v1alpha1.ConditionEngineCompatibility, "False/InjectedEngineCrashLooping").Message; !strings.Contains(got, "Container vllm of pod engine-") {
		t.Errorf("EngineCompatibility says %q", got)
	}
	s.waitBackendReady()
	s.waitEvents(v1alpha1.EventEngineSelectorUnmatched, v1alpha1.EventInjectedEngineCrashLooping)
	s.edit(func(b *v1alpha1.CacheBackend) { b.Spec.EngineSelector = nil })
	s.waitBackendReady()
	s.waitCondition(v1alpha1.ConditionEngineCompatibility, "False/InjectedEngineCrashLooping")
	// Nobody selects the pods that replace it, so they are not wired.
	s.kubectl("delete", "pod", "-l", "serve=atlas")
	s.waitCondition(v1alpha1.ConditionEngineCompatibility, "")
	s.waitEvents(v1alpha1.EventEngineSelectorUnmatched, v1alpha1.EventInjectedEngineCrashLooping)
}
