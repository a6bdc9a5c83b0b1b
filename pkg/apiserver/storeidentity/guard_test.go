// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"

	"inferencecache.io/inferencecache/pkg/apiserver/etcd"
)

const (
	testNamespace = "inference-cache-system"
	testPrefix    = "/registry"
)

// newKV gives a real etcd of its own to a test.
func newKV(t *testing.T) clientv3.KV {
	t.Helper()
	server, err := etcd.Start(t.Context(), etcd.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	t.Cleanup(server.Close)
	client, err := etcd.NewClient(etcd.ClientOptions{Endpoints: server.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// newGuard gives a guard that is fast and whose ids are name-1, name-2 and so on.
func newGuard(name string, kv clientv3.KV, host *fake.Clientset) *Guard {
	g := New(Options{ConfigMaps: host.CoreV1(), KV: kv, Prefix: testPrefix, Namespace: testNamespace})
	var mu sync.Mutex
	made := 0
	g.newID = func() string {
		mu.Lock()
		defer mu.Unlock()
		made++
		return fmt.Sprintf("%s-%d", name, made)
	}
	g.backoff = wait.Backoff{Duration: 5 * time.Millisecond}
	g.period = wait.Backoff{Duration: time.Hour} // one epoch per Run, unless the test says otherwise
	return g
}

func configMap(id, accepted string) *corev1.ConfigMap {
	cm := newConfigMap(testNamespace)
	if id != "" {
		cm.Data = map[string]string{StoreIDKey: id}
	}
	if accepted != "" {
		cm.Annotations[AcceptStoreAnnotation] = accepted
	}
	return cm
}

func readConfigMap(t *testing.T, host *fake.Clientset) *corev1.ConfigMap {
	t.Helper()
	cm, err := host.CoreV1().ConfigMaps(testNamespace).Get(t.Context(), ConfigMapName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

func expectCluster(t *testing.T, host *fake.Clientset, id string) {
	t.Helper()
	if got := readConfigMap(t, host).Data[StoreIDKey]; got != id {
		t.Errorf("the cluster knows store %q, want %q", got, id)
	}
}

func expectStore(t *testing.T, g *Guard, want storeRecord) {
	t.Helper()
	got, _, err := g.store.read(t.Context())
	if err != nil || got != want {
		t.Errorf("the store has %+v (error %v), want %+v", got, err, want)
	}
}

// evaluate is one round of Run.
func evaluate(t *testing.T, g *Guard) error {
	t.Helper()
	err := g.evaluate(t.Context())
	g.report(t.Context(), err)
	return err
}

func expectError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error is %q, want it to contain %q", err, part)
		}
	}
}

func TestFirstInstallationAndRestart(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset()
	g := newGuard("first", kv, host)
	if err := g.Check(nil); err == nil {
		t.Fatal("healthy before the first evaluation")
	}
	if err := evaluate(t, g); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Verified():
	default:
		t.Fatal("not verified")
	}
	if err := g.Check(nil); err != nil {
		t.Fatalf("not healthy: %v", err)
	}
	expectStore(t, g, storeRecord{ID: "first-1"})
	expectCluster(t, host, "first-1")

	// The key lies below the prefix, as text that an operator can read.
	answer, err := kv.Get(t.Context(), testPrefix+"/inferencecache.io/store-identity")
	if err != nil || len(answer.Kvs) != 1 || string(answer.Kvs[0].Value) != `{"id":"first-1"}` {
		t.Errorf("in etcd: %v, error %v", answer, err)
	}

	again := newGuard("again", kv, host)
	if err := evaluate(t, again); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	expectCluster(t, host, "first-1")
	for _, a := range host.Actions() {
		if a.GetVerb() == "update" || a.GetVerb() == "delete" {
			t.Errorf("unexpected %s", a.GetVerb())
		}
	}
}

func TestStoreIsRecordedInNewCluster(t *testing.T) {
	t.Parallel()
	kv := newKV(t)
	for name, host := range map[string]*fake.Clientset{
		"no configmap":      fake.NewClientset(),
		"emptied configmap": fake.NewClientset(configMap("", "")),
	} {
		g := newGuard("x", kv, host)
		if err := evaluate(t, g); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		expectCluster(t, host, "x-1")
	}
}

func TestEmptyStoreIsRefusedUntilAccepted(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset(configMap("old", ""))
	const command = "kubectl -n inference-cache-system annotate --overwrite configmap inference-cache-store " +
		"inferencecache.io/accept-store=new-1"
	g := newGuard("new", kv, host)
	for range 2 { // the id in the message is stable, also over a restart
		expectError(t, evaluate(t, g), "belong to store old,", "has store new-1 ", command)
		expectError(t, g.Check(nil), command)
		expectStore(t, g, storeRecord{ID: "new-1", Pending: true})
		g = newGuard("other", kv, host)
	}
	expectCluster(t, host, "old")

	// Consent to some other store is none; deleting the ConfigMap is none either.
	update(t, host, configMap("old", "third-1"))
	expectError(t, evaluate(t, g), command)
	if err := host.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), ConfigMapName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expectError(t, evaluate(t, g), "create configmap inference-cache-store --from-literal=storeID=new-1")

	if _, err := host.CoreV1().ConfigMaps(testNamespace).Create(t.Context(), configMap("old", "new-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := evaluate(t, g); err != nil {
		t.Fatalf("after the consent: %v", err)
	}
	expectStore(t, g, storeRecord{ID: "new-1"})
	expectCluster(t, host, "new-1")
	cm := readConfigMap(t, host)
	if got := cm.Data[PreviousStoreIDKey]; got != "old" {
		t.Errorf("previous store is %q, want old", got)
	}
	if got, ok := cm.Annotations[AcceptStoreAnnotation]; ok {
		t.Errorf("the consent to %s was left", got)
	}

	// Told once: a restart needs nothing, and the old store is the foreign one now.
	if err := evaluate(t, newGuard("third", kv, host)); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	expectError(t, evaluate(t, newGuard("old", newKV(t), host)), "belong to store new-1,")
}

func TestDeletedConfigMapIsCreatedAsTheMessageSays(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset()
	g := newGuard("x", kv, host)
	if err := g.store.write(t.Context(), storeRecord{ID: "b", Pending: true}, 0); err != nil {
		t.Fatal(err)
	}
	expectError(t, evaluate(t, g), "--from-literal=storeID=b")
	if _, err := host.CoreV1().ConfigMaps(testNamespace).Create(t.Context(), configMap("b", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := evaluate(t, g); err != nil {
		t.Fatal(err)
	}
	expectStore(t, g, storeRecord{ID: "b"})
}

func TestWrongPrefixIsRefused(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset()
	if err := evaluate(t, newGuard("right", kv, host)); err != nil {
		t.Fatal(err)
	}
	wrong := newGuard("wrong", kv, host)
	wrong.store = newStore(kv, "other")
	expectError(t, evaluate(t, wrong), "belong to store right-1,", "has store wrong-1 ")
	expectCluster(t, host, "right-1")
}

func TestRunServesAfterConsent(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset(configMap("old", ""))
	g := newGuard("new", kv, host)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go g.Run(ctx)
	refused := func(context.Context) (bool, error) {
		return strings.Contains(g.Err().Error(), "belong to store old"), nil
	}
	if err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, refused); err != nil {
		t.Fatalf("never refused: %v", g.Err())
	}
	update(t, host, configMap("old", "new-1"))
	select {
	case <-g.Verified():
	case <-ctx.Done():
		t.Fatalf("never verified: %v", g.Err())
	}
	if err := g.Err(); err != nil {
		t.Error(err)
	}
}

func TestDamagedIdentityIsLeftAlone(t *testing.T) {
	t.Parallel()
	kv, host := newKV(t), fake.NewClientset()
	g := newGuard("x", kv, host)
	for _, damaged := range []string{"", "no json", `{"pending":true}`} {
		if _, err := kv.Put(t.Context(), g.store.key, damaged); err != nil {
			t.Fatal(err)
		}
		expectError(t, evaluate(t, g), "decoding the store's identity at key /registry/inferencecache.io/store-identity")
		answer, err := kv.Get(t.Context(), g.store.key)
		if err != nil || string(answer.Kvs[0].Value) != damaged {
			t.Errorf("the value %q was changed: %v, error %v", damaged, answer, err)
		}
	}
	if _, err := host.CoreV1().ConfigMaps(testNamespace).Get(t.Context(), ConfigMapName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the configmap: %v, want not found", err)
	}
}

func update(t *testing.T, host *fake.Clientset, cm *corev1.ConfigMap) {
	t.Helper()
	if _, err := host.CoreV1().ConfigMaps(testNamespace).Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
