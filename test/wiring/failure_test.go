// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// expectBypassed creates a pod that a backend selects while kube-apiserver gets no answer from the webhook: the pod must be
// there, as it was sent, and the cluster's audit log must say that the webhook was passed over.
func expectBypassed(t *testing.T, namespace string) {
	t.Helper()
	got := create(t, newPod(namespace, "bypassed"), forReal)
	defer removePod(t, got.pod)
	t.Logf("The pod took %.1fs", got.took.Seconds())
	if got.outcome() != "" || !got.failedOpen(webhookName) {
		t.Errorf("the webhook was not passed over: %v", got.audit)
	}
	expectPlain(t, got)
}

// expectPlain demands a pod that has nothing of a wire.
func expectPlain(t *testing.T, got creation) {
	t.Helper()
	if len(got.pod.Annotations) > 0 || got.mutated(webhookName) {
		t.Errorf("the pod is changed: annotations %v, audit %v", got.pod.Annotations, got.audit)
	}
	spec := got.pod.Spec
	if len(spec.Containers) != 1 || len(spec.InitContainers) > 0 || len(spec.Containers[0].Env) > 0 ||
		!slices.Equal(spec.Containers[0].Args, newPod("", "").Spec.Containers[0].Args) {
		t.Errorf("the pod is changed: %+v", spec)
	}
}

// expectWired demands a pod that is wired to a backend.
func expectWired(t *testing.T, got creation, backend *v1alpha1.CacheBackend) {
	t.Helper()
	if got.outcome() != "wired" {
		t.Fatalf("outcome %q, reason %q: %s", got.outcome(), got.reason(), got.message())
	}
	expectWire(t, got.pod, backend)
}

// expectWire looks at the pod alone: it has the stamp, and the wire of vLLM just once.
func expectWire(t *testing.T, pod *corev1.Pod, backend *v1alpha1.CacheBackend) {
	t.Helper()
	if by, uid := pod.Annotations[v1alpha1.AnnotationInjectedBy], pod.Annotations[v1alpha1.AnnotationInjectedByUID]; by != backend.Namespace+"/"+backend.Name || uid != string(backend.UID) {
		t.Errorf("the pod is stamped %q %q, want %s/%s %s", by, uid, backend.Namespace, backend.Name, backend.UID)
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "vllm" })
	if i < 0 {
		t.Fatalf("the pod has no engine: %+v", pod.Spec)
	}
	connectors, times := 0, map[string]int{}
	for _, arg := range pod.Spec.Containers[i].Args {
		if strings.HasPrefix(arg, "--kv-transfer-config") {
			connectors++
		}
	}
	for _, env := range pod.Spec.Containers[i].Env {
		times[env.Name]++
	}
	if connectors != 1 || times["LMCACHE_CHUNK_SIZE"] != 1 || times["PYTHONHASHSEED"] != 1 {
		t.Errorf("the engine is not wired once: %+v", pod.Spec.Containers[i])
	}
}

// TestWebhookDown asserts that pods are created while the API server is away, and wired again as soon as it is back.
func TestWebhookDown(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	backend := createBackend(t, newBackend(namespace, "a"))
	expectWired(t, createDecided(t, newPod(namespace, "before"), forReal), backend)
	if err := env.KillAPIServer(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	expectBypassed(t, namespace)
	serving(t)
	expectWired(t, createDecided(t, newPod(namespace, "after"), forReal), backend)
}

// TestWebhookHung asserts that pods wait no longer than the registration says for a webhook that takes connections and
// never answers.
func TestWebhookHung(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	t.Run("BeforeTheHandshake", func(t *testing.T) {
		listener := listenInPlace(t)
		accepted := make(chan net.Conn, 100)
		go func() {
			defer close(accepted)
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				accepted <- connection
			}
		}()
		t.Cleanup(func() {
			listener.Close()
			for connection := range accepted {
				connection.Close()
			}
		})
		expectBypassed(t, namespace)
		if len(accepted) == 0 {
			t.Error("nobody has connected")
		}
	})
	t.Run("BeforeTheAnswer", func(t *testing.T) {
		hung := newStandIn(t, ownCertificate(t))
		hung.waitCalled(t)
		hung.answer(func(http.ResponseWriter, *http.Request) { <-t.Context().Done() })
		expectBypassed(t, namespace)
	})
	t.Run("WithinTheAnswer", func(t *testing.T) {
		hung := newStandIn(t, ownCertificate(t))
		hung.waitCalled(t)
		hung.answer(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"kind":"AdmissionReview",`)
			_ = http.NewResponseController(w).Flush()
			<-t.Context().Done()
		})
		expectBypassed(t, namespace)
	})
}

// TestWebhookAnswersGarbage asserts that pods do not depend on what is at the webhook's address.
func TestWebhookAnswersGarbage(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	garbage := newStandIn(t, ownCertificate(t))
	garbage.waitCalled(t)
	for name, handler := range map[string]http.HandlerFunc{
		"text":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>It works!</html>") },
		"nothing":   func(http.ResponseWriter, *http.Request) {},
		"an object": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"apiVersion":"v1","kind":"Pod"}`) },
		"no verdict": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`)
		},
		"another's verdict": func(w http.ResponseWriter, req *http.Request) {
			respond(w, req, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				return &admissionv1.AdmissionResponse{UID: "another", Allowed: true}
			})
		},
		"500": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "out of order", http.StatusInternalServerError)
		},
		"429":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "too many", http.StatusTooManyRequests) },
		"redirect": func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, "/elsewhere", http.StatusFound) },
		"a lot":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, bytes.NewReader(make([]byte, 32<<20))) },
		"cut off":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half of it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"kind":`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := garbage.calls.Load()
			garbage.answer(handler)
			expectBypassed(t, namespace)
			if garbage.calls.Load() == before {
				t.Error("the stand-in was not called")
			}
		})
	}
}

// TestWebhookCertificate asserts that pods are created while the webhook has a certificate that cannot be trusted, and
// that none but the right one is.
func TestWebhookCertificate(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	trusted := newAuthority(t, "trusted")
	changeConfiguration(t, func(webhook *admissionregistrationv1.MutatingWebhook) { webhook.ClientConfig.CABundle = trusted.pem })
	good := trusted.issue(t, webhookHost, inOneHour())
	server := newStandIn(t, good)
	for _, tt := range []struct {
		name string
		bad  func(t *testing.T)
	}{
		{"expired", func(t *testing.T) { server.present(trusted.issue(t, webhookHost, time.Now().Add(-time.Hour))) }},
		{"another name", func(t *testing.T) { server.present(trusted.issue(t, "elsewhere.example", inOneHour())) }},
		{"another authority", func(t *testing.T) { server.present(newAuthority(t, "foreign").issue(t, webhookHost, inOneHour())) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server.present(good)
			server.waitCalled(t)
			tt.bad(t)
			before := server.calls.Load()
			expectBypassed(t, namespace)
			if server.calls.Load() != before {
				t.Error("a pod was sent to a server that cannot be trusted")
			}
		})
	}
}

// expectLookupFailed creates a pod while the webhook cannot read backends: the pod is there, plain, and whoever created it
// is told why.
func expectLookupFailed(t *testing.T, namespace, because string) creation {
	t.Helper()
	got := create(t, newPod(namespace, "unread"), forReal)
	defer removePod(t, got.pod)
	t.Logf("The pod took %.1fs: %s", got.took.Seconds(), got.message())
	if got.outcome() != "unwired" || got.reason() != "lookup-failed" || !strings.Contains(got.message(), because) {
		t.Errorf("outcome %q, reason %q, message %q, want %q", got.outcome(), got.reason(), got.message(), because)
	}
	if len(got.warnings) != 1 || !strings.Contains(got.warnings[0], "lookup failed") || strings.Contains(got.warnings[0], "accept-store") {
		t.Errorf("warnings %q, want one with %q", got.warnings, because)
	}
	expectPlain(t, got)
	return got
}

// TestStoreOutage asserts what becomes of pods while the API server runs without its store: as long as it refuses a store
// that is not the cluster's, and while etcd is stuck or gone, pods are created without a wire and with a warning. When
// etcd is back, the next pod is wired.
func TestStoreOutage(t *testing.T) {
	serving(t)
	e := startEtcd(t)
	startServer(t, e.flags())
	namespace := newNamespace(t, nil)
	eventually(t, "the server refuses its store", func(ctx context.Context) error {
		probe, err := tryCreate(ctx, newPod(namespace, "probe"), dryRun)
		if err == nil && !strings.Contains(probe.message(), "accept-store") {
			err = fmt.Errorf("message %q", probe.message())
		}
		return err
	})
	refusal := expectLookupFailed(t, namespace, "inferencecache.io/accept-store=")
	_, id, _ := strings.Cut(refusal.message(), "inferencecache.io/accept-store=")
	acceptStore(t, id)
	waitServing(t)
	backend := createBackend(t, newBackend(namespace, "a"))
	expectWired(t, createDecided(t, newPod(namespace, "before"), forReal), backend)

	waitWired := func() {
		t.Helper()
		eventually(t, "pods are wired again", func(ctx context.Context) error {
			probe, err := tryCreate(ctx, newPod(namespace, "probe"), dryRun)
			if err == nil && probe.outcome() != "wired" {
				err = fmt.Errorf("outcome %q: %s", probe.outcome(), probe.message())
			}
			return err
		})
	}
	e.signal(t, syscall.SIGSTOP)
	expectLookupFailed(t, namespace, namespace)
	var pods sync.WaitGroup // more than may read at a time
	for i := range 20 {
		pods.Go(func() {
			got, err := tryCreate(t.Context(), newPod(namespace, fmt.Sprintf("unread-%d", i)), dryRun)
			if err != nil || got.reason() != "lookup-failed" && !got.failedOpen(webhookName) {
				t.Errorf("pod %d: %v, audit %v", i, err, got.audit)
			}
		})
	}
	pods.Wait()
	e.signal(t, syscall.SIGCONT)
	waitWired()

	e.kill()
	expectLookupFailed(t, namespace, namespace)
	e.start(t)
	waitWired()
	expectWired(t, createDecided(t, newPod(namespace, "after"), forReal), backend)
}
