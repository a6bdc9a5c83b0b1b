// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cluster"
	"inferencecache.io/inferencecache/test/wiringcases"
)

// refused are the cases, by number, whose backends admission refuses today. A store may still hold such objects, of a
// server that did not.
var refused = map[string]bool{"22": true, "49": true, "52": true}

// TestWiringCases asserts that pods get in a cluster what the golden cases say: they are created through kube-apiserver
// next to backends that the API server serves, and come out with the wiring, the defaults of Kubernetes, and nothing else.
// A pod that is copied from a wired one comes out as it is.
//
// The status of an external backend is computed in the write, so that a stale one, which the second case has, cannot be
// had here. The cases of the handler alone show that it is not read.
func TestWiringCases(t *testing.T) {
	cases, err := wiringcases.Load(filepath.Join(cluster.Root(), "testdata", "engine-wiring-cases"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"team-red", "team-blue"} {
		makeNamespace(t, metav1.ObjectMeta{Name: name})
	}
	plain := newNamespace(t, map[string]string{injectionLabel: "disabled"})
	for _, args := range argsOf(cases) {
		serving(t, args...)
		for _, c := range cases {
			if strings.Join(argsFor(c), " ") == strings.Join(args, " ") {
				t.Run(c.Name, func(t *testing.T) { runCase(t, c, plain) })
			}
		}
	}
}

// argsFor are the arguments of the process that a case asks for.
func argsFor(c wiringcases.Case) []string {
	var args []string
	if image := c.Options.SubscriberImage; image != "" {
		args = append(args, "--kvevent-subscriber-image="+image)
	}
	if address := c.Options.PolicyServerAddress; address != "" {
		args = append(args, "--policy-server-grpc-address="+address)
	}
	return args
}

// argsOf are all arguments that the cases ask for: with each the process is started once.
func argsOf(cases []wiringcases.Case) [][]string {
	var all [][]string
	seen := map[string]bool{}
	for _, c := range cases {
		args := argsFor(c)
		if key := strings.Join(args, " "); !seen[key] {
			seen[key] = true
			all = append(all, args)
		}
	}
	return all
}

func runCase(t *testing.T, c wiringcases.Case, plain string) {
	uids := createBackends(t, c)
	for key, value := range c.Pod.Annotations {
		c.Pod.Annotations[key] = uids.Replace(value)
	}

	first := createDecided(t, c.Pod, forReal)
	checkDecision(t, c, first)
	if got, want := first.mutated(webhookName), c.Expect.Patch == wiringcases.NonEmpty; got != want {
		t.Errorf("mutated is %v, want %v", got, want)
	}
	form := wiringcases.Form{
		Annotations: uids,
		Normalize: func(pod *corev1.Pod) (*corev1.Pod, error) {
			pod = pod.DeepCopy()
			pod.Namespace = plain
			normal, err := tryCreate(t.Context(), pod, dryRun)
			return normal.pod, err
		},
	}
	if err := form.Check(c, first.pod); err != nil {
		t.Error(err)
	}

	second := createDecided(t, again(first.pod), dryRun)
	checkDecision(t, c, second)
	if second.mutated(webhookName) {
		t.Error("the second admission changes the pod")
	}
	if err := wiringcases.CheckUnchanged(again(first.pod), again(second.pod)); err != nil {
		t.Error(err)
	}
}

// createBackends creates the backends of a case, through the API unless it refuses them, and returns what replaces the
// uids of the case by those that they got.
func createBackends(t *testing.T, c wiringcases.Case) *strings.Replacer {
	t.Helper()
	number, _, _ := strings.Cut(c.Name, "-")
	var uids []string
	for _, backend := range c.Backends() {
		t.Cleanup(func() { removeBackend(t, &backend) })
		if refused[number] {
			_, err := env.inference.InferencecacheV1alpha1().CacheBackends(backend.Namespace).Create(t.Context(), &backend, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) {
				t.Errorf("got %v, but the API refuses this backend", err)
			}
			plant(t, &backend)
			continue
		}
		fresh := backend.DeepCopy()
		fresh.UID = ""
		if storage := fresh.Spec.RemoteStorage; storage != nil && storage.Ownership == v1alpha1.StorageOwnershipExternal {
			fresh.Status = v1alpha1.CacheBackendStatus{}
		}
		uids = append(uids, string(backend.UID), string(createBackend(t, fresh).UID))
	}
	return strings.NewReplacer(uids...)
}

// checkDecision looks into the audit log: what was decided, and why.
func checkDecision(t *testing.T, c wiringcases.Case, got creation) {
	t.Helper()
	if got.outcome() != string(c.Expect.Outcome) {
		t.Errorf("outcome is %q, want %q: %s", got.outcome(), c.Expect.Outcome, got.message())
	}
	if want := c.Expect.Reason; want != "" && got.reason() != want {
		t.Errorf("reason is %q, want %q: %s", got.reason(), want, got.message())
	}
}

// again returns a pod as somebody would send it who has copied it from the cluster.
func again(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: "again", Labels: pod.Labels, Annotations: pod.Annotations,
		},
		Spec: pod.Spec,
	}
}
