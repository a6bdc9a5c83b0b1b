// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disruption stops, kills and misconfigures the API server on a real cluster. Its tests share one cluster and one
// API server process, and so run one after the other; each begins with installed, whatever the one before has left.
package disruption

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
	"inferencecache.io/inferencecache/test/cluster"
)

const (
	// patience is how long anything may take before a test fails. It is far above what is needed, because no test is
	// about speed.
	patience = 2 * time.Minute
	interval = 100 * time.Millisecond

	systemNamespace = "inference-cache-system"
	storeConfigMap  = "inference-cache-store"
	apiServiceName  = "v1alpha1.inferencecache.io"
	groupVersion    = "inferencecache.io/v1alpha1"
)

var (
	// host is the cluster that all tests share.
	host *cluster.Cluster
	// homeStore is the id of the store that the cluster was installed with.
	homeStore string
	// runningArgs are the arguments that the API server was started with, beyond the usual ones.
	runningArgs []string
)

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Nodes: 1}, func(ctx context.Context, c *cluster.Cluster) (func(bool) error, error) {
		host = c
		var err error
		homeStore, err = install(ctx)
		return nil, err
	}))
}

// install starts the API server for the first time, and returns the id of its store.
func install(ctx context.Context) (string, error) {
	if err := host.StartAPIServer(); err != nil {
		return "", err
	}
	if err := host.WaitAPIServerReady(ctx); err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(host.RESTConfig())
	if err != nil {
		return "", err
	}
	known, err := client.CoreV1().ConfigMaps(systemNamespace).Get(ctx, storeConfigMap, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return known.Data["storeID"], nil
}

// installed makes the API server run as it was installed: with the usual arguments, on the store that it began with.
func installed(t *testing.T) {
	t.Helper()
	if host.APIServerPID() == 0 || len(runningArgs) > 0 {
		stop(t)
		start(t)
	}
	if id := knownStore(t).Data["storeID"]; id != homeStore {
		t.Logf("The cluster was left with store %s", id)
		kubectl(t, "-n", systemNamespace, "annotate", "--overwrite", "configmap", storeConfigMap, "inferencecache.io/accept-store="+homeStore)
	}
	waitServing(t)
}

// start starts the API server with further arguments and does not wait for it.
func start(t *testing.T, args ...string) {
	t.Helper()
	if err := host.StartAPIServer(args...); err != nil {
		t.Fatal(err)
	}
	runningArgs = slices.Clone(args)
}

// stop ends the API server as a kubelet does, and demands that it ends well.
func stop(t *testing.T) {
	t.Helper()
	if err := host.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
}

// kill ends the API server without giving it time for anything.
func kill(t *testing.T) {
	t.Helper()
	if err := host.KillAPIServer(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// restart replaces the API server by one with other arguments, and does not wait for it.
func restart(t *testing.T, args ...string) {
	t.Helper()
	stop(t)
	start(t, args...)
}

// waitServing waits until requests through kube-apiserver are answered by the API server that runs now.
func waitServing(t *testing.T) {
	t.Helper()
	eventually(t, "the API server gets ready", func(ctx context.Context) error {
		if host.APIServerPID() == 0 {
			t.Fatalf("the API server has ended:\n%s", host.APIServerLogTail())
		}
		return host.APIServerReady(ctx)
	})
	server := direct(t)
	eventually(t, "the API server knows an administrator", func(ctx context.Context) error {
		got, err := server.do(ctx, http.MethodGet, "/apis/"+groupVersion, "")
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("got %d %s", got.code, got.body)
		}
		return err
	})
	waitAvailable(t, apiregistrationv1.ConditionTrue)
	if err := host.WaitAPIServerReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// waitAvailable waits until kube-apiserver has noticed whether the API server is available, and returns the message.
func waitAvailable(t *testing.T, want apiregistrationv1.ConditionStatus) string {
	t.Helper()
	client, err := aggregatorclient.NewForConfig(host.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	var message string
	eventually(t, "APIService is available: "+string(want), func(ctx context.Context) error {
		// Any change makes kube-apiserver look at once, and not within half a minute.
		nudge := fmt.Appendf(nil, `{"metadata":{"annotations":{"disruption-test/nudge":"%d"}}}`, time.Now().UnixNano())
		service, err := client.ApiregistrationV1().APIServices().Patch(ctx, apiServiceName, types.MergePatchType, nudge, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		for _, condition := range service.Status.Conditions {
			if condition.Type == apiregistrationv1.Available {
				message = condition.Message
				if condition.Status == want {
					return nil
				}
			}
		}
		return fmt.Errorf("conditions %+v", service.Status.Conditions)
	})
	return message
}

// eventually waits until the check returns no error.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("not tried yet")
	err := wait.PollUntilContextTimeout(t.Context(), interval, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v\n%s", what, last, host.APIServerLogTail())
	}
}

// kubectl runs kubectl as an administrator and returns its standard output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	stdout, _, err := host.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return stdout
}

// kube returns a client of the cluster.
func kube(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := host.RESTConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// ours returns a client of our kinds, through kube-apiserver.
func ours(t *testing.T) versioned.Interface {
	t.Helper()
	config := host.RESTConfig()
	config.QPS = -1
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func knownStore(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	known, err := kube(t).CoreV1().ConfigMaps(systemNamespace).Get(t.Context(), storeConfigMap, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// newNamespace makes a namespace for one test. It goes away with the cluster.
func newNamespace(t *testing.T) string {
	t.Helper()
	prefix := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(t.Name(), "Test"), "/", "-"))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	namespace, err := kube(t).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

func newBackend(namespace, name string) *v1alpha1.CacheBackend {
	return &v1alpha1.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.CacheBackendSpec{Runtime: v1alpha1.RuntimeVLLM},
	}
}

func createBackend(t *testing.T, namespace, name string) *v1alpha1.CacheBackend {
	t.Helper()
	backend, err := ours(t).InferencecacheV1alpha1().CacheBackends(namespace).Create(t.Context(), newBackend(namespace, name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

func expectBackends(t *testing.T, want int) {
	t.Helper()
	list, err := ours(t).InferencecacheV1alpha1().CacheBackends(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != want {
		t.Errorf("got %d backends, want %d", len(list.Items), want)
	}
}
