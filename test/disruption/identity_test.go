// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const acceptAnnotation = "inferencecache.io/accept-store"

// TestForeignStore asserts what operators rely on when a volume is lost, swapped or misconfigured: a server without the
// cluster's store answers 503 and nothing else, says why and what to do, and Kubernetes deletes nothing. With the right
// store it serves again, and nobody has to do anything.
func TestForeignStore(t *testing.T) {
	t.Run("EmptyDirectory", func(t *testing.T) {
		installed(t)
		testForeignStore(t, nil, []string{"--data-dir=" + t.TempDir()})
	})
	t.Run("AnotherServersDirectory", func(t *testing.T) {
		installed(t)
		dir := "--data-dir=" + t.TempDir()
		restart(t, dir)
		accept(t, waitRefused(t))
		waitServing(t)
		createBackend(t, newNamespace(t), "elsewhere")
		installed(t)
		testForeignStore(t, nil, []string{dir})
	})
	t.Run("WrongEtcdPrefix", func(t *testing.T) {
		installed(t)
		e := useEtcd(t)
		testForeignStore(t, e.flags, append(slices.Clone(e.flags), "--etcd-prefix=/elsewhere"))
	})
}

// testForeignStore goes from the right store to a wrong one and back. The arguments choose the store.
func testForeignStore(t *testing.T, right, wrong []string) {
	t.Helper()
	o := newOwned(t, newNamespace(t), "owner")
	audit := markAudit(t)
	restart(t, wrong...)

	refusal := waitRefused(t)
	expectHelp(t, refusal)
	expectUnavailable(t, direct(t), o, refusal)
	expectUnavailable(t, aggregated(t), o, "")
	o.provoke(t)
	t.Logf("APIService: %s", waitAvailable(t, apiregistrationv1.ConditionFalse))
	expectUnavailable(t, aggregated(t), o, "")
	o.provoke(t)
	o.expectKept(t)
	expectNever404(t, audit)

	restart(t, right...)
	waitServing(t)
	o.expectUnchanged(t)
	o.waitDecided(t)
}

// waitRefused waits until the API server refuses its store, and returns why. It says so in the log, which is what an
// operator looks at first, in the health check that fails, and, to those who may read it, as the check's own answer.
func waitRefused(t *testing.T) string {
	t.Helper()
	server := direct(t)
	var refusal string
	eventually(t, "the API server refuses its store", func(ctx context.Context) error {
		check, err := server.do(ctx, http.MethodGet, "/readyz/store-identity", "")
		if err != nil {
			return err
		}
		_, refusal, _ = strings.Cut(check.message(), "internal server error: ")
		if check.code == http.StatusOK || !strings.Contains(refusal, acceptAnnotation) {
			return fmt.Errorf("the check answers %d: %s", check.code, check.body)
		}
		return nil
	})
	ready := server.ask(t, http.MethodGet, "/readyz?verbose", "")
	if ready.code != http.StatusInternalServerError || !strings.Contains(ready.body, "[-]store-identity failed") {
		t.Errorf("readyz answers %d without naming the check:\n%s", ready.code, ready.body)
	}
	if live := server.ask(t, http.MethodGet, "/livez", ""); live.code != http.StatusOK {
		t.Errorf("livez answers %d, but a restart does not help:\n%s", live.code, live.body)
	}
	if log, err := os.ReadFile(host.APIServer.Log); err != nil || !strings.Contains(string(log), refusal) {
		t.Errorf("the log does not tell the reason (error %v): %s", err, refusal)
	}
	return refusal
}

// expectHelp demands that a refusal names both stores and the way out.
func expectHelp(t *testing.T, refusal string) {
	t.Helper()
	wrong := refusedStore(refusal)
	if known := knownStore(t).Data["storeID"]; wrong == known || wrong == "" {
		t.Errorf("the refused store is %q, the known one %q", wrong, known)
	}
	for _, part := range []string{
		"belong to store " + knownStore(t).Data["storeID"], "has store " + wrong, "mount the right one",
		"kubectl -n " + systemNamespace + " annotate",
	} {
		if !strings.Contains(refusal, part) {
			t.Errorf("the refusal lacks %q: %s", part, refusal)
		}
	}
}

// refusedStore is the id of the store that a refusal offers to accept.
func refusedStore(refusal string) string {
	_, id, _ := strings.Cut(refusal, acceptAnnotation+"=")
	return id
}

// accept does what an operator does with a refusal who has lost the old store: runs the command in it, to the letter.
func accept(t *testing.T, refusal string) {
	t.Helper()
	_, command, found := strings.Cut(refusal, "with: ")
	if !found {
		t.Fatalf("no command in %q", refusal)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-c", command)
	shell.Env = append(os.Environ(), "KUBECONFIG="+host.Kubeconfig, "PATH="+filepath.Dir(host.Programs["kubectl"])+":"+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("running %q: %v\n%s", command, err, out)
	}
}

// expectUnavailable sends every kind of request, none of which may be answered but with 503: a 404 would mean to the
// garbage collector that the owner is gone. The answer of our own server has the reason.
func expectUnavailable(t *testing.T, server endpoint, o *owned, reason string) {
	t.Helper()
	collection := "/apis/" + groupVersion + "/namespaces/" + o.backend.Namespace + "/cachebackends"
	object := collection + "/" + o.backend.Name
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":"CacheBackend","metadata":{"name":%q},"spec":{"runtime":"VLLM"}}`, groupVersion, o.backend.Name)
	requests := []struct{ method, path, body string }{
		{http.MethodGet, object, ""},
		{http.MethodGet, collection, ""},
		{http.MethodGet, "/apis/" + groupVersion + "/cachebackends", ""},
		{http.MethodGet, collection + "?watch=true", ""},
		{http.MethodDelete, object, ""},
		{http.MethodDelete, collection, ""},
		{http.MethodPost, collection, body},
		{http.MethodPut, object, body},
		{http.MethodGet, "/apis/" + groupVersion, ""},
		{http.MethodGet, "/apis/" + groupVersion + "/nosuchkind/x", ""},
	}
	if reason != "" { // kube-apiserver answers these itself
		for _, path := range []string{"/apis", "/apis/inferencecache.io", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/" + groupVersion} {
			requests = append(requests, struct{ method, path, body string }{http.MethodGet, path, ""})
		}
	}
	for _, r := range requests {
		got := server.ask(t, r.method, r.path, r.body)
		if got.code != http.StatusServiceUnavailable || !strings.Contains(got.message(), reason) {
			t.Errorf("%s %s: got %d %s, want 503 %s", r.method, r.path, got.code, got.body, reason)
		}
	}
}

// expectNever404 demands that nobody, the garbage collector above all, was told that something of ours does not exist.
func expectNever404(t *testing.T, since auditMark) {
	t.Helper()
	answers := map[int]int{}
	for _, event := range since.requests(t) {
		if event.ResponseStatus.Code == http.StatusNotFound {
			t.Errorf("%s was answered 404 for %s", event.User.Username, event.RequestURI)
		}
		if event.User.Username == garbageCollector {
			answers[event.ResponseStatus.Code]++
		}
	}
	t.Logf("Answers to the garbage collector: %v", answers)
}

// TestAcceptStore asserts that the command in the refusal is all that an operator needs when the old store is lost for
// good, that it has to be given once, and that it means what it says: what the old store's objects owned is collected.
// Who finds out too late that the old store was the right one can have it back in the same way.
func TestAcceptStore(t *testing.T) {
	installed(t)
	o := newOwned(t, newNamespace(t), "lost")
	dir := "--data-dir=" + t.TempDir()
	restart(t, dir)
	refusal := waitRefused(t)
	accept(t, refusal)
	waitServing(t)

	known := knownStore(t)
	if known.Data["storeID"] != refusedStore(refusal) || known.Data["previousStoreID"] != homeStore {
		t.Errorf("the cluster knows %v, want %s after %s", known.Data, refusedStore(refusal), homeStore)
	}
	if _, left := known.Annotations[acceptAnnotation]; left {
		t.Error("the consent is left, and would hold again")
	}
	expectBackends(t, 0)
	o.provoke(t)
	for resource := range o.dependents {
		o.waitGone(t, resource, o.backend.Name)
	}

	restart(t, dir)
	waitServing(t)
	restart(t)
	accept(t, waitRefused(t))
	waitServing(t)
	o.expectUnchanged(t)
}

// TestOlderStore asserts that a backup which was put back is not taken for the store that it is a copy of, and that one
// command changes that, with the consequences it names.
func TestOlderStore(t *testing.T) {
	installed(t)
	dir, backup := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	restart(t, "--data-dir="+dir)
	accept(t, waitRefused(t))
	waitServing(t)
	stop(t)
	copied := knownStore(t).Data
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	start(t, "--data-dir="+dir)
	waitServing(t)
	eventually(t, "the epoch moves on", func(context.Context) error {
		if now := knownStore(t).Data; now["storeEpoch"] == copied["storeEpoch"] {
			return fmt.Errorf("the cluster knows %v", now)
		}
		return nil
	})
	o := newOwned(t, newNamespace(t), "newer")
	audit := markAudit(t)
	stop(t)
	if err := errors.Join(os.RemoveAll(dir), os.Rename(backup, dir)); err != nil {
		t.Fatal(err)
	}
	start(t, "--data-dir="+dir)

	refusal := waitRefused(t)
	if id := copied["storeID"]; !strings.Contains(refusal, "an older state of store "+id) || !strings.HasPrefix(refusedStore(refusal), id+"@") {
		t.Errorf("the refusal does not name the state: %s", refusal)
	}
	expectUnavailable(t, direct(t), o, refusal)
	waitAvailable(t, apiregistrationv1.ConditionFalse)
	o.provoke(t)
	o.expectKept(t)
	expectNever404(t, audit)
	accept(t, refusal)
	waitServing(t)
	expectBackends(t, 0)
}

// TestForgottenStore asserts that deleting the ConfigMap that knows the store is no consent to another one.
func TestForgottenStore(t *testing.T) {
	installed(t)
	restart(t, "--data-dir="+t.TempDir())
	waitRefused(t)
	known := knownStore(t)
	kubectl(t, "-n", systemNamespace, "delete", "configmap", storeConfigMap)
	server := direct(t)
	eventually(t, "the API server refuses its store for the new reason", func(ctx context.Context) error {
		check, err := server.do(ctx, http.MethodGet, "/readyz/store-identity", "")
		if err != nil {
			return err
		}
		if check.code == http.StatusOK {
			t.Fatal("the API server serves from a store that it refused")
		}
		if !strings.Contains(check.body, "emptied or deleted") {
			return errors.New(check.body)
		}
		return nil
	})

	// A server on the right store makes the ConfigMap anew.
	restart(t)
	waitServing(t)
	if got := knownStore(t).Data["storeID"]; got != known.Data["storeID"] {
		t.Errorf("the cluster knows store %s, want %s", got, known.Data["storeID"])
	}
}
