// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"inferencecache.io/inferencecache/hack/cluster/launcher"
)

// TestCluster runs a real control plane and lets the simulated kubelets do everything that the project's tests rely on.
func TestCluster(t *testing.T) {
	programs, err := launcher.Locate(modules())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	log := &bytes.Buffer{}
	ended := make(chan error, 1)
	go func() {
		ended <- launcher.Run(ctx, dir, launcher.Options{Nodes: 2}, programs, write, log, nil)
		write.Close()
	}()
	var state launcher.State
	if err := json.NewDecoder(read).Decode(&state); err != nil {
		t.Fatalf("cluster did not start: %v", <-ended)
	}

	if info, err := os.Stat(state.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, mode %v, want 0600", err, info.Mode())
	}
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil || version.GitVersion != programs.Kubernetes {
		t.Errorf("server version %v, %v; want %s", version, err, programs.Kubernetes)
	}
	t.Run("nodes", func(t *testing.T) { testNodes(t, client) })
	t.Run("GPU deployment", func(t *testing.T) { testDeployment(t, client) })
	t.Run("native sidecar", func(t *testing.T) { testSidecar(t, client) })
	t.Run("failing containers", func(t *testing.T) { testFailures(t, client) })

	if len(state.Processes) != 5 {
		t.Errorf("%d processes are recorded, want 5", len(state.Processes))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("stopping: %v\n%s", err, log)
	}
	for _, process := range state.Processes {
		if err := syscall.Kill(process.PID, 0); err != syscall.ESRCH {
			t.Errorf("%s (pid %d) is left: %v", process.Name, process.PID, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 { // The lock and the logs.
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func testNodes(t *testing.T, client kubernetes.Interface) {
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 2 {
		t.Errorf("%d nodes, want 2", len(nodes.Items))
	}
	for _, node := range nodes.Items {
		if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 8 {
			t.Errorf("node %s has %s GPUs, want 8", node.Name, &gpus)
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			t.Errorf("node %s is not ready", node.Name)
		}
	}
}

func testDeployment(t *testing.T, client kubernetes.Interface) {
	labels := map[string]string{"app": "gpu"}
	pod := corev1.PodSpec{Containers: []corev1.Container{{
		Name: "engine", Image: "engine",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}},
	}}}
	deployments := client.AppsV1().Deployments(metav1.NamespaceDefault)
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "deployment available", func(ctx context.Context) bool {
		deployment, err := deployments.Get(ctx, "gpu", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		})
	})
}

func testSidecar(t *testing.T, client kubernetes.Interface) {
	always := corev1.ContainerRestartPolicyAlways
	create(t, client, "sidecar", map[string]string{"fake.inferencecache.io/message.check": `kernels="a <b>"`}, corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "check", Image: "check"}, {Name: "subscriber", Image: "s", RestartPolicy: &always}},
		Containers:     []corev1.Container{{Name: "engine", Image: "engine"}},
	})
	pod := podWhen(t, client, "sidecar", podReady)
	check, subscriber := pod.Status.InitContainerStatuses[0], pod.Status.InitContainerStatuses[1]
	if ended := check.State.Terminated; ended == nil || ended.ExitCode != 0 || ended.Message != `kernels="a <b>"` {
		t.Errorf("init container: %+v", check)
	}
	if subscriber.State.Running == nil || !subscriber.Ready || subscriber.Started == nil || !*subscriber.Started {
		t.Errorf("sidecar: %+v", subscriber)
	}
}

func testFailures(t *testing.T, client kubernetes.Interface) {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	create(t, client, "init", map[string]string{
		"fake.inferencecache.io/exit-code.check": "3", "fake.inferencecache.io/message.check": "no kernel",
	}, corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "check", Image: "check"}},
		Containers:     []corev1.Container{{Name: "engine", Image: "engine"}},
	})
	pod := podWhen(t, client, "init", func(pod *corev1.Pod) bool { return len(pod.Status.InitContainerStatuses) > 0 })
	if ended := pod.Status.InitContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 3 || ended.Message != "no kernel" {
		t.Errorf("init container: %+v", pod.Status.InitContainerStatuses[0])
	}
	if waiting := pod.Status.ContainerStatuses[0].State.Waiting; pod.Status.Phase != corev1.PodPending || waiting == nil {
		t.Errorf("behind a failed init container: phase %s, %+v", pod.Status.Phase, pod.Status.ContainerStatuses[0])
	}

	create(t, client, "crash", nil, corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "engine"}}})
	podWhen(t, client, "crash", podReady)
	annotate := func(annotations string) {
		t.Helper()
		patch := []byte(`{"metadata":{"annotations":` + annotations + `}}`)
		if _, err := pods.Patch(t.Context(), "crash", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	annotate(`{"fake.inferencecache.io/crash-loop.engine":"true","fake.inferencecache.io/restart-count.engine":"4"}`)
	podWhen(t, client, "crash", func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		waiting := status.State.Waiting
		return !podReady(pod) && status.RestartCount == 4 && waiting != nil && waiting.Reason == "CrashLoopBackOff"
	})
	annotate(`{"fake.inferencecache.io/crash-loop.engine":null}`)
	podWhen(t, client, "crash", func(pod *corev1.Pod) bool {
		return podReady(pod) && pod.Status.ContainerStatuses[0].RestartCount == 4
	})
	if err := pods.Delete(t.Context(), "crash", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod gone", func(ctx context.Context) bool {
		_, err := pods.Get(ctx, "crash", metav1.GetOptions{})
		return err != nil
	})
}

func create(t *testing.T, client kubernetes.Interface, name string, annotations map[string]string, spec corev1.PodSpec) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec}
	if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func podWhen(t *testing.T, client kubernetes.Interface, name string, condition func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "pod "+name, func(ctx context.Context) bool {
		var err error
		pod, err = client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		return err == nil && condition(pod)
	})
	return pod
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func eventually(t *testing.T, what string, condition func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return condition(ctx), nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
