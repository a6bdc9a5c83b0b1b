// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// fleet is a managed backend with its servers, and an engine Deployment that is wired to it.
type fleet struct {
	*rig
	own *appsv1.Deployment
}

func controlledByNamed(kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

func newFleet(t *testing.T, name string) *fleet {
	t.Helper()
	r, _ := serving(t, name)
	r.prober = nil
	f := &fleet{rig: r, own: &appsv1.Deployment{}}
	if err := r.client.Get(t.Context(), r.key, f.own); err != nil {
		t.Fatal(err)
	}
	// The store gives no uids.
	f.own.UID = "D"
	f.must(r.client.Update(t.Context(), f.own))
	f.create(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns1", Name: "server-1", UID: "S", OwnerReferences: controlledByNamed("Deployment", name, "D"),
	}})
	f.engine("eng", "E", "ER")
	return f
}

// newReplaced is a fleet whose server was replaced since the last pass.
func newReplaced(t *testing.T, name string) *fleet {
	t.Helper()
	f := newFleet(t, name)
	f.server("A")
	f.want("A:0", "", 0)
	f.kill("A")
	f.server("B")
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) create(object client.Object) {
	f.Helper()
	f.must(f.rig.client.Create(f.Context(), object))
}

// engine makes a Deployment with a ReplicaSet and a pod that is wired to the backend.
func (f *fleet) engine(name string, uid, replicaSet types.UID, changes ...func(*corev1.Pod)) {
	f.Helper()
	f.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: name, UID: uid}})
	f.create(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns1", Name: name + "-1", UID: replicaSet, OwnerReferences: controlledByNamed("Deployment", name, uid),
	}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns1", Name: name + "-1-x", OwnerReferences: controlledByNamed("ReplicaSet", name+"-1", replicaSet),
		Annotations: map[string]string{v1alpha1.AnnotationInjectedBy: "ns1/" + f.key.Name, v1alpha1.AnnotationInjectedByUID: "U"},
	}}
	for _, change := range changes {
		change(pod)
	}
	f.create(pod)
}

// server makes a pod of the tier that serves.
func (f *fleet) server(uid types.UID) {
	f.Helper()
	pod := newPod("server-"+string(uid), readySince(corev1.ConditionTrue, time.Minute))
	pod.UID, pod.Labels["app.kubernetes.io/instance"] = uid, f.key.Name
	pod.OwnerReferences = controlledByNamed("ReplicaSet", "server-1", "S")
	pod.Status.Phase = corev1.PodRunning
	f.create(pod)
}

func (f *fleet) kill(uid types.UID) {
	f.Helper()
	f.must(f.rig.client.Delete(f.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "server-" + string(uid)}}))
}

// restart counts restarts of containers of a server.
func (f *fleet) restart(uid types.UID, counts map[string]int32) {
	f.Helper()
	pod := &corev1.Pod{}
	f.must(f.rig.client.Get(f.Context(), client.ObjectKey{Namespace: "ns1", Name: "server-" + string(uid)}, pod))
	pod.Status.ContainerStatuses = nil
	for name, count := range counts {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, RestartCount: count})
	}
	f.must(f.rig.client.Status().Update(f.Context(), pod))
}

// trigger is what an engine was last restarted with.
func (f *fleet) trigger(name string) string {
	f.Helper()
	deployment := &appsv1.Deployment{}
	f.must(f.rig.client.Get(f.Context(), client.ObjectKey{Namespace: "ns1", Name: name}, deployment))
	return deployment.Spec.Template.Annotations[v1alpha1.AnnotationCacheServerRestartTrigger]
}

// want runs a pass and checks what is published, what the engine was restarted with, and
// how many cascades there were.
func (f *fleet) want(instance, trigger string, cascades float64) {
	f.Helper()
	f.wantPass()
	if got := f.backend().Status.ObservedServerInstance; got != instance {
		f.Errorf("observedServerInstance is %q, want %q", got, instance)
	}
	if got := f.trigger("eng"); got != trigger {
		f.Errorf("the engine was restarted with %q, want %q", got, trigger)
	}
	if got := testutil.ToFloat64(restartCascades.WithLabelValues("ns1", f.key.Name, cascadeReason)); got != cascades {
		f.Errorf("%v cascades, want %v", got, cascades)
	}
	if got := f.trigger(f.key.Name); got != "" {
		f.Errorf("the tier itself was restarted with %q", got)
	}
}

func TestCascade(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "cascading")
	f.want("", "", 0)
	f.server("A")
	f.want("A:0", "", 0)
	f.kill("A")
	f.want("A:0", "", 0)
	f.server("B")
	f.want("B:0", "B:0", 1)

	f.kill("B")
	f.server("C")
	f.wait(5 * time.Second)
	result, _, err := f.pass()
	if err != nil || result.RequeueAfter != 25*time.Second {
		t.Errorf("%+v, %v", result, err)
	}
	f.want("B:0", "B:0", 1)
	f.wait(25 * time.Second)
	f.want("C:0", "C:0", 2)

	f.wait(time.Hour)
	f.restart("C", map[string]int32{"istio-proxy": 3, "lmcache-server": 0})
	f.want("C:0", "C:0", 2)
	f.restart("C", map[string]int32{"istio-proxy": 3, "lmcache-server": 1})
	f.want("C:1", "C:1", 3)
	f.deleteAll()
	f.wantPass()
	if left := restartCascades.DeletePartialMatch(prometheus.Labels{"backend": "cascading"}); left != 0 {
		t.Errorf("%d series of a backend that is gone", left)
	}
}

// TestCascadeTargets: only Deployments whose pods are wired to this very backend restart.
func TestCascadeTargets(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "targets")
	annotate := func(key, value string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations[key] = value }
	}
	f.engine("ended", "E2", "R2", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
	f.engine("forged", "E3", "R3", annotate(v1alpha1.AnnotationInjectedByUID, "V"))
	f.engine("others", "E4", "R4", annotate(v1alpha1.AnnotationInjectedBy, "ns1/other"))
	f.engine("remade", "E5", "R5", func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "R0" })
	f.engine("statefulset", "E6", "R6", func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "StatefulSet" })
	f.engine("rollout", "E7", "R7", func(pod *corev1.Pod) { pod.OwnerReferences[0].APIVersion = "argoproj.io/v1alpha1" })
	f.engine("bare", "E8", "R8", func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	f.engine("gone", "E9", "R9", func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "nowhere" })
	f.engine("replaced", "E10", "R10")
	f.must(f.rig.client.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "replaced"}}))
	f.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "replaced", UID: "E11"}})
	// Somebody has marked a server as wired to its own backend.
	own := newPod("marked", func(pod *corev1.Pod) {
		pod.Labels = nil
		pod.OwnerReferences = controlledByNamed("ReplicaSet", "server-1", "S")
		pod.Annotations = map[string]string{v1alpha1.AnnotationInjectedBy: "ns1/targets", v1alpha1.AnnotationInjectedByUID: "U"}
	})
	f.create(own)
	f.server("A")
	f.wantPass()
	f.kill("A")
	f.server("B")
	f.want("B:0", "B:0", 1)
	for _, name := range []string{"forged", "others", "remade", "statefulset", "rollout", "bare", "gone", "replaced"} {
		if got := f.trigger(name); got != "" {
			t.Errorf("%s was restarted with %q", name, got)
		}
	}
	if got := f.trigger("ended"); got != "B:0" {
		t.Errorf("an engine whose pod has ended was restarted with %q", got)
	}
}

// TestCascadeFailures: whatever fails is tried again, and nothing is done twice.
func TestCascadeFailures(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "eng", errors.New("changed"))
	for name, tt := range map[string]struct {
		fail func(verb string, object any) error
		// before is what the engine has after the passes that fail.
		before string
	}{
		"pods":        {fail: failing[*corev1.PodList]("list", errRefused)},
		"ReplicaSets": {fail: failing[*metav1.PartialObjectMetadata]("get", errRefused)},
		"patch":       {fail: failing[*appsv1.Deployment]("patch", errRefused)},
		"conflict":    {fail: failing[*appsv1.Deployment]("patch", conflict)},
		"status":      {fail: failing[*v1alpha1.CacheBackend]("patch status", errRefused), before: "B:0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReplaced(t, "failing-"+name)
			f.fail = tt.fail
			for range 3 {
				_, _, _ = f.pass()
				f.wait(cascadeWindow)
			}
			if got := f.trigger("eng"); got != tt.before {
				t.Errorf("the engine was restarted with %q, want %q", got, tt.before)
			}
			if got := f.backend().Status.ObservedServerInstance; got != "A:0" {
				t.Errorf("observedServerInstance is %q", got)
			}
			f.heal()
			f.want("B:0", "B:0", 1)
			f.wait(cascadeWindow)
			f.want("B:0", "B:0", 1)
		})
	}
}

// TestCascadeInANewProcess: a cascade whose result was not stored is not done again to
// engines that have it.
func TestCascadeInANewProcess(t *testing.T) {
	t.Parallel()
	f := newReplaced(t, "restarted")
	f.fail = failing[*v1alpha1.CacheBackend]("patch status", errRefused)
	_, _, _ = f.pass()
	f.heal()
	f.memories.byName = nil
	_, written, err := f.pass()
	if err != nil || len(written) != 1 || written[0] != "patch status *v1alpha1.CacheBackend" {
		t.Errorf("%v, %v", written, err)
	}
}

// TestCascadeAfterAnotherPath: a tier that comes back has nothing to do with the one before.
func TestCascadeAfterAnotherPath(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]bool{"seen": false, "not written": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "away-"+name)
			f.server("0")
			f.want("0:0", "", 0)
			f.kill("0")
			f.server("A")
			f.want("A:0", "A:0", 1)
			remote := f.backend().Spec.RemoteStorage
			f.update(hostOnly)
			if fault {
				f.fail = failing[*v1alpha1.CacheBackend]("patch status", errRefused)
			}
			_, _, _ = f.pass()
			f.heal()
			if got := f.backend().Status.ObservedServerInstance; !fault && got != "" {
				t.Errorf("observedServerInstance is %q", got)
			}
			f.kill("A")
			f.server("B")
			f.update(func(b *v1alpha1.CacheBackend) { b.Spec.RemoteStorage = remote })
			f.wantPass()
			own := &appsv1.Deployment{}
			f.must(f.rig.client.Get(t.Context(), f.key, own))
			own.UID = "D"
			f.must(f.rig.client.Update(t.Context(), own))
			f.want("B:0", "A:0", 1)
			// Nor does the time of the last restart count.
			f.kill("B")
			f.server("C")
			f.want("C:0", "C:0", 2)
		})
	}
}

// TestCascadeFromAnOldBaseline: what another process has stored counts, and not what the
// cache still shows of before.
func TestCascadeFromAnOldBaseline(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "led")
	f.server("A")
	f.want("A:0", "", 0)
	before := f.backend()
	f.kill("A")
	f.server("B")
	f.want("B:0", "B:0", 1)
	f.kill("B")
	f.server("C")
	f.wait(cascadeWindow)
	f.want("C:0", "C:0", 2)
	// The next one starts with a cache that is behind.
	f.memories.byName = nil
	store := f.rig.client
	f.rig.client = staleReader{store, before}
	_, _, _ = f.pass()
	f.rig.client = store
	f.want("C:0", "C:0", 2)
}

// TestRestartIsConditional: an engine that has changed since it was read is not overwritten.
func TestRestartIsConditional(t *testing.T) {
	t.Parallel()
	f := newReplaced(t, "conditional")
	changed := false
	f.fail = func(verb string, object any) error {
		if deployment, ok := object.(*appsv1.Deployment); ok && verb == "patch" && deployment.Name == "eng" && !changed {
			changed = true
			live := &appsv1.Deployment{}
			f.must(f.rig.client.Get(t.Context(), client.ObjectKeyFromObject(deployment), live))
			live.Labels = map[string]string{"changed": "meanwhile"}
			f.must(f.rig.client.Update(t.Context(), live))
		}
		return nil
	}
	f.want("A:0", "", 0)
	f.wait(cascadeWindow)
	f.want("B:0", "B:0", 1)
}

// TestShrinkThatFails: an attempt that failed is no reason to take engines for restarted.
func TestShrinkThatFails(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "shrinking")
	f.server("0")
	f.want("0:0", "", 0)
	f.kill("0")
	f.server("A")
	f.want("A:0", "A:0", 1)
	f.server("B")
	f.scaleWorkload(2)
	f.want("A:0,B:0", "A:0", 1)
	f.kill("B")
	f.wait(cascadeWindow)
	f.fail = failing[*metav1.PartialObjectMetadata]("get", errRefused)
	_, _, _ = f.pass()
	f.heal()
	f.wait(cascadeWindow)
	f.wantPass()
	if got := f.trigger("eng"); !strings.HasPrefix(got, "A:0@") {
		t.Errorf("the engine was restarted with %q", got)
	}
	if got := f.backend().Status.ObservedServerInstance; got != "A:0" {
		t.Errorf("observedServerInstance is %q", got)
	}
}

// scaleWorkload makes the workload as large as its pods are many.
func (f *fleet) scaleWorkload(replicas int32) {
	f.Helper()
	f.update(func(b *v1alpha1.CacheBackend) { b.Spec.Replicas = &replicas })
	deployment := &appsv1.Deployment{}
	f.must(f.rig.client.Get(f.Context(), f.key, deployment))
	deployment.Status = appsv1.DeploymentStatus{Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas, ReadyReplicas: replicas}
	f.must(f.rig.client.Status().Update(f.Context(), deployment))
}
