// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const garbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"

var (
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// owned is a CacheBackend and what it owns: what Kubernetes deletes when it believes that the backend is gone.
type owned struct {
	backend    *v1alpha1.CacheBackend
	dependents map[schema.GroupVersionResource]types.UID
}

// newOwned makes a CacheBackend with a ConfigMap and a Deployment of the same name, and waits until the garbage collector
// knows the kind: for a while after the start of a cluster it does not, and leaves alone what it does not understand.
func newOwned(t *testing.T, namespace, name string) *owned {
	t.Helper()
	backend := createBackend(t, namespace, name)
	owner := metav1.OwnerReference{APIVersion: groupVersion, Kind: "CacheBackend", Name: backend.Name, UID: backend.UID}
	o := &owned{backend: backend, dependents: map[schema.GroupVersionResource]types.UID{}}
	o.dependents[configMaps] = createConfigMap(t, namespace, name, owner)
	o.dependents[deployments] = createDeployment(t, namespace, name, owner)
	o.provoke(t)
	o.waitDecided(t)
	return o
}

func createConfigMap(t *testing.T, namespace, name string, owner metav1.OwnerReference) types.UID {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: ownedMeta(name, owner)}
	object, err := kube(t).CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.UID
}

func createDeployment(t *testing.T, namespace, name string, owner metav1.OwnerReference) types.UID {
	t.Helper()
	labels := map[string]string{"app": name}
	object := &appsv1.Deployment{ObjectMeta: ownedMeta(name, owner), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](0),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "cache", Image: "cache"}}},
		},
	}}
	object, err := kube(t).AppsV1().Deployments(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object.UID
}

func ownedMeta(name string, owner metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{owner}}
}

// missingOwner is a reference to a core object that does not exist.
func missingOwner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "missing", UID: uuid.NewUUID()}
}

// provoke makes the garbage collector decide about the dependents, and returns when it has begun to. A further owner, one
// that does not exist, puts them into its queue, and it then asks for each of their owners. A canary that has no other
// owner goes the same way: when it is gone, they have been queued. A second canary comes behind them in that queue.
func (o *owned) provoke(t *testing.T) {
	t.Helper()
	missing := missingOwner()
	patch, err := json.Marshal(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{missing}}})
	if err != nil {
		t.Fatal(err)
	}
	for resource := range o.dependents {
		_, err := o.resource(t, resource).Patch(t.Context(), o.backend.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) { // it may be gone already; whether it may be is for others to say
			t.Fatalf("adding an owner to what is owned: %v", err)
		}
	}
	o.collectCanary(t, missing)
	o.collectCanary(t, missingOwner())
}

// collectCanary makes dependents of one owner, of the same kinds as ours, and waits until they have been collected.
func (o *owned) collectCanary(t *testing.T, owner metav1.OwnerReference) {
	t.Helper()
	createConfigMap(t, o.backend.Namespace, "canary", owner)
	createDeployment(t, o.backend.Namespace, "canary", owner)
	for resource := range o.dependents {
		o.waitGone(t, resource, "canary")
	}
}

func (o *owned) waitGone(t *testing.T, resource schema.GroupVersionResource, name string) {
	t.Helper()
	client := o.resource(t, resource)
	eventually(t, "the garbage collector takes "+resource.Resource+"/"+name, func(ctx context.Context) error {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %w", err)
	})
}

// expectKept demands that nothing was deleted, not even marked for it.
func (o *owned) expectKept(t *testing.T) {
	t.Helper()
	for resource, uid := range o.dependents {
		object, err := o.resource(t, resource).Get(t.Context(), o.backend.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("what a backend owns is lost: %v", err)
		}
		if object.GetUID() != uid || object.GetDeletionTimestamp() != nil {
			t.Errorf("%s %s was deleted", resource.Resource, object.GetName())
		}
	}
}

// waitDecided waits for the garbage collector's verdict on the dependents after a provocation: it has found the backend,
// and so it only strikes out the owner that does not exist.
func (o *owned) waitDecided(t *testing.T) {
	t.Helper()
	for resource := range o.dependents {
		client := o.resource(t, resource)
		eventually(t, "the garbage collector has decided about "+resource.Resource, func(ctx context.Context) error {
			object, err := client.Get(ctx, o.backend.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatalf("what a backend owns is lost: %v", err)
			}
			if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != o.backend.UID {
				return fmt.Errorf("owners are %v", owners)
			}
			return nil
		})
	}
	o.expectKept(t)
}

// expectUnchanged demands the very same CacheBackend.
func (o *owned) expectUnchanged(t *testing.T) {
	t.Helper()
	got, err := ours(t).InferencecacheV1alpha1().CacheBackends(o.backend.Namespace).Get(t.Context(), o.backend.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != o.backend.UID || got.ResourceVersion != o.backend.ResourceVersion {
		t.Errorf("the backend is %s at %s, it was %s at %s", got.UID, got.ResourceVersion, o.backend.UID, o.backend.ResourceVersion)
	}
}

func (o *owned) resource(t *testing.T, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(host.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(resource).Namespace(o.backend.Namespace)
}

// auditMark is a place in kube-apiserver's audit log.
type auditMark int64

// auditEvent is what the tests read of an event.
type auditEvent struct {
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup string `json:"apiGroup"`
		Name     string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func auditLog() string {
	return filepath.Join(host.Dir, "logs", "audit.log")
}

// markAudit returns the present end of the audit log.
func markAudit(t *testing.T) auditMark {
	t.Helper()
	info, err := os.Stat(auditLog())
	if err != nil {
		t.Fatal(err)
	}
	return auditMark(info.Size())
}

// requests returns what has been asked of our group since the mark, by anybody.
func (m auditMark) requests(t *testing.T) []auditEvent {
	t.Helper()
	log, err := os.Open(auditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Seek(int64(m), 0); err != nil {
		t.Fatal(err)
	}
	var events []auditEvent
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		// The last line may be half written.
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.ObjectRef.APIGroup == v1alpha1.GroupName {
			events = append(events, event)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}
