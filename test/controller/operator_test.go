// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// kubectlEdit runs `kubectl edit` with sed in the place of an editor.
func (s *subject) kubectlEdit(kind, script string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "edit.sed")
	must(s.T, os.WriteFile(file, []byte(script), 0o600))
	cmd := exec.CommandContext(s.Context(), env.Programs["kubectl"], "-n", s.namespace, "edit", kind, s.name)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig, "KUBECACHEDIR="+filepath.Join(env.Dir, "kubectl"),
		"KUBE_EDITOR=sed -i -f "+file)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "edited") {
		s.Fatalf("kubectl edit %s: %v: %s", kind, err, out)
	}
}

// neverDegraded expects that no stored state said that the backend is broken.
func (s *subject) neverDegraded(h *history) {
	s.Helper()
	for _, state := range h.states() {
		if strings.Contains(state, "Degraded=True") {
			s.Errorf("the states were %q", h.states())
			return
		}
	}
}

// TestEditedObjectsAreRepaired: what the backend says of its objects holds, and what it does not say is left to others.
func TestEditedObjectsAreRepaired(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitState(up)
	h := s.record()
	before := s.object("Deployment").(*appsv1.Deployment)
	service := s.object("Service").(*corev1.Service)

	s.kubectlEdit("deployment", `
s#^\( *\)image: .*#\1env:\n\1- name: BY\n\1  value: hand\n\1image: example.com/other:v1#
s#containerPort: .*#containerPort: 7777#
s#^  replicas: .*#  replicas: 3#
s#^  annotations:$#  annotations:\n    example.com/note: kept#
s#^    metadata:$#    metadata:\n      annotations:\n        example.com/note: kept#
`)
	s.kubectlEdit("service", `
s#port: 65432#port: 9999#
s#type: ClusterIP#type: NodePort#
`)
	// Without this label the controller's cache does not hold the object.
	s.kubectl("label", "deployment", s.name, storage.LabelManagedBy+"-")

	eventually(t, "the objects are as they were", func(context.Context) error {
		now := s.object("Deployment").(*appsv1.Deployment)
		template := now.Spec.Template
		switch {
		case now.UID != before.UID:
			t.Fatal("the Deployment was replaced")
		case !apiequality.Semantic.DeepEqual(template.Spec, before.Spec.Template.Spec):
			return fmt.Errorf("the pods are %+v", template.Spec)
		case *now.Spec.Replicas != 1:
			return fmt.Errorf("there are %d replicas", *now.Spec.Replicas)
		case now.Labels[storage.LabelManagedBy] != storage.ManagedByValue:
			return fmt.Errorf("the labels are %v", now.Labels)
		case now.Annotations["example.com/note"] != "kept" || template.Annotations["example.com/note"] != "kept":
			t.Fatalf("the annotations are %v and %v", now.Annotations, template.Annotations)
		}
		spec := s.object("Service").(*corev1.Service).Spec
		if !apiequality.Semantic.DeepEqual(spec.Ports, service.Spec.Ports) || spec.Type != service.Spec.Type {
			return fmt.Errorf("the Service is %+v", spec)
		}
		return nil
	})
	s.waitState(up)
	s.neverDegraded(h)
	s.endsWithEvents()
}

// TestScaledByHand: the count is the backend's when there is no autoscaler.
func TestScaledByHand(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := create(t, deploymentKind(kind))
			s.waitState(up)
			h := s.record()
			generation := s.object(string(kind)).GetGeneration()
			s.kubectl("scale", string(kind), s.name, "--replicas=3")
			eventually(t, "it has one replica again", func(ctx context.Context) error {
				object, err := s.read(ctx, string(kind))
				if err != nil {
					return err
				}
				if got := object.GetGeneration(); got < generation+2 { // Once by hand, once back.
					return fmt.Errorf("it is at generation %d, was at %d", got, generation)
				}
				return nil
			})
			if got := replicasOf(s.object(string(kind))); got != 1 {
				t.Errorf("there are %d replicas", got)
			}
			s.waitState(up)
			s.neverDegraded(h)
		})
	}
}

func replicasOf(workload metav1.Object) int32 {
	if set, ok := workload.(*appsv1.StatefulSet); ok {
		return *set.Spec.Replicas
	}
	return *workload.(*appsv1.Deployment).Spec.Replicas
}

// TestRolloutRestart: the pods are replaced as the operator wants, and the backend says that it is on its way.
func TestRolloutRestart(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := create(t, deploymentKind(kind))
			s.waitState(up)
			before := s.serverPod(func(*corev1.Pod) error { return nil })
			h := s.record()
			workload := strings.ToLower(string(kind)) + "/" + s.name
			s.kubectl("rollout", "restart", workload)
			s.kubectl("rollout", "status", workload, "--timeout=2m")
			s.expect(h, up, rollingOut, up)
			after := s.serverPod(func(pod *corev1.Pod) error {
				if pod.DeletionTimestamp != nil {
					return errors.New("it is being deleted")
				}
				return nil
			})
			if after.UID == before.UID || after.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
				t.Errorf("the pod is %s with the annotations %v, it was %s", after.UID, after.Annotations, before.UID)
			}
			s.endsWithEvents()
		})
	}
}

func TestDeletedObjectsComeBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := create(t, deploymentKind(kind), autoscaled(1, 2))
			s.waitState(up)
			h := s.record()
			for _, deleted := range []string{string(kind), "Service", "HorizontalPodAutoscaler"} {
				before := s.object(deleted).GetUID()
				s.kubectl("delete", deleted, s.name)
				eventually(t, "there is another "+deleted, func(ctx context.Context) error {
					object, err := s.read(ctx, deleted)
					if err == nil && object.GetUID() == before {
						err = errors.New("it is still the one before")
					}
					return err
				})
			}
			s.waitState(up)
			s.neverDegraded(h)
			s.endsWithEvents()
		})
	}
}

// TestDeletedPod: a pod that is replaced is on its way, and nothing is broken.
func TestDeletedPod(t *testing.T) {
	t.Parallel()
	for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newSubject(t)
			h := s.record()
			s.create(deploymentKind(kind), s.held)
			s.open()
			s.waitState(up)
			s.close()
			s.kubectl("delete", "pod", s.serverPod(started).Name)
			s.waitReadyMessage("0/1 replicas available.")
			s.open()
			s.waitState(up)
			s.expect(h, "", rollingOut, up, rollingOut, up)
			s.endsWithEvents()
		})
	}
}

// TestPausedRollout: a change waits for as long as the operator wants.
func TestPausedRollout(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitState(up)
	h := s.record()
	s.kubectl("rollout", "pause", "deployment", s.name)
	s.edit(func(b *v1alpha1.CacheBackend) {
		b.Spec.RemoteStorage.LMCacheServer = &v1alpha1.LMCacheServerSpec{Image: "example.com/lmcache:next"}
	})
	s.waitReadyMessage("0/1 replicas updated.")
	s.kubectl("rollout", "resume", "deployment", s.name)
	s.waitState(up)
	s.neverDegraded(h)
	s.endsWithEvents()
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"background", "foreground"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := create(t, autoscaled(1, 2))
			s.waitState(up)
			s.kubectl("delete", "cachebackend", s.name, "--cascade="+how, "--timeout=2m")
			s.waitObjects()
		})
	}
}

// TestNothingIsMadeWhileTheBackendGoes: in a foreground deletion the backend outlives its objects.
func TestNothingIsMadeWhileTheBackendGoes(t *testing.T) {
	t.Parallel()
	s := create(t, autoscaled(1, 2))
	s.waitState(up)
	s.kubectl("patch", "deployment", s.name, `-p={"metadata":{"finalizers":["example.com/hold"]}}`)
	s.kubectl("delete", "cachebackend", s.name, "--cascade=foreground", "--wait=false")
	s.waitObjects("Deployment")
	s.touch()
	// Another backend is worked on after this one.
	other := &subject{T: t, namespace: s.namespace, name: "other"}
	other.create()
	other.waitState(up)
	s.waitObjects("Deployment")
	s.kubectl("patch", "deployment", s.name, `-p={"metadata":{"finalizers":null}}`)
	s.kubectl("wait", "cachebackend", s.name, "--for=delete", "--timeout=2m")
	s.waitObjects()
}

// TestOrphansAreAdopted: what a deleted backend has left behind is the next one's of that name.
func TestOrphansAreAdopted(t *testing.T) {
	t.Parallel()
	kinds := []string{"Deployment", "Service", "HorizontalPodAutoscaler"}
	s := create(t, autoscaled(1, 2))
	s.waitState(up)
	before := s.serverPod(func(*corev1.Pod) error { return nil })
	s.kubectl("delete", "cachebackend", s.name, "--cascade=orphan", "--timeout=2m")
	uids := map[string]types.UID{}
	for _, kind := range kinds {
		object := s.object(kind)
		if len(object.GetOwnerReferences()) != 0 || object.GetDeletionTimestamp() != nil {
			t.Errorf("the %s has the owners %v and is deleted at %v", kind, object.GetOwnerReferences(), object.GetDeletionTimestamp())
		}
		uids[kind] = object.GetUID()
	}
	s.create(autoscaled(1, 2))
	backend := s.waitState(up)
	for _, kind := range kinds {
		object := s.object(kind)
		if owner := metav1.GetControllerOf(object); object.GetUID() != uids[kind] || owner == nil || owner.UID != backend.UID {
			t.Errorf("the %s is %s of %v, want %s of %s", kind, object.GetUID(), owner, uids[kind], backend.UID)
		}
	}
	if after := s.serverPod(func(*corev1.Pod) error { return nil }); after.UID != before.UID {
		t.Error("the server was restarted")
	}
	s.endsWithEvents()
}

// TestRecreatedWhileTheOldOneGoes: a backend does not touch what its predecessor of the same name has left to the garbage
// collector. It says so, and goes on by itself.
func TestRecreatedWhileTheOldOneGoes(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitState(up)
	s.kubectl("patch", "deployment", s.name, `-p={"metadata":{"finalizers":["example.com/hold"]}}`)
	s.kubectl("delete", "cachebackend", s.name, "--timeout=2m")
	eventually(t, "the old Deployment is to go", func(context.Context) error {
		if s.object("Deployment").GetDeletionTimestamp() == nil {
			return errors.New("it is not deleted")
		}
		return nil
	})
	s.waitObjects("Deployment")
	h := s.record()
	s.create()
	backend := s.waitReady(metav1.ConditionFalse, v1alpha1.ReasonWorkloadConflict)
	if got := message(backend, v1alpha1.ConditionReady); !strings.Contains(got, "Deployment cache") {
		t.Errorf("Ready says %q", got)
	}
	s.kubectl("patch", "deployment", s.name, `-p={"metadata":{"finalizers":null}}`)
	s.waitState(up)
	s.expect(h, "", conflicting, rollingOut, up)
	s.endsWithEvents(v1alpha1.EventWorkloadConflict)
}
