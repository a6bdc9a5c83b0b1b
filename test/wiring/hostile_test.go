// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"inferencecache.io/inferencecache/pkg/admission/pod"
)

// webhookClient talks to the webhook as kube-apiserver does, over a transport of its own.
func webhookClient(t testing.TB, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	bundle, err := os.ReadFile(env.APIServer.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(bundle)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authorities, Certificates: certificates},
		MaxIdleConnsPerHost: 100,
		ForceAttemptHTTP2:   true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: requestTimeout}
}

// post sends a body to the webhook and returns the status code and the answer.
func post(ctx context.Context, client *http.Client, body []byte) (int, []byte, error) {
	return request(ctx, client, http.MethodPost, pod.Path, bytes.NewReader(body))
}

func request(ctx context.Context, client *http.Client, method, path string, body io.Reader) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+webhookAddress()+path, body)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// reviewOf is a review of the creation of an object.
func reviewOf(t testing.TB, namespace string, object any) []byte {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	review, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID:       uuid.NewUUID(),
			Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace: namespace,
			Operation: admissionv1.Create,
			Object:    runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return review
}

// decode reads the answer to a review, which is always that the pod is allowed.
func decode(answer []byte) (*admissionv1.AdmissionResponse, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &review); err != nil {
		return nil, err
	}
	if review.Response == nil || !review.Response.Allowed {
		return nil, fmt.Errorf("not allowed: %s", answer)
	}
	return review.Response, nil
}

// expectAlive demands that the same process still wires pods.
func expectAlive(t *testing.T, client *http.Client, pid int, namespace string) {
	t.Helper()
	code, answer, err := post(t.Context(), client, reviewOf(t, namespace, newPod(namespace, "x")))
	if err != nil || code != http.StatusOK {
		t.Fatalf("got %d %s (error %v)", code, answer, err)
	}
	response, err := decode(answer)
	if err != nil || response.AuditAnnotations["outcome"] != "wired" {
		t.Errorf("got %s (error %v), want wired", answer, err)
	}
	if now := env.APIServerPID(); now != pid {
		t.Errorf("the server has pid %d, it was %d", now, pid)
	}
}

// TestHostileRequests asserts that nobody who reaches the webhook's port can do more than be turned away.
func TestHostileRequests(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	client, pid := webhookClient(t), env.APIServerPID()
	large := newPod(namespace, "x")
	large.Annotations = map[string]string{"large": strings.Repeat("x", 10<<20)}
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	valid := string(reviewOf(t, namespace, newPod(namespace, "x")))
	for _, tt := range []struct {
		name, body string
		code       int // 0 is any of the 4xx
	}{
		{"too large", string(reviewOf(t, namespace, large)), http.StatusRequestEntityTooLarge},
		{"empty", "", 0},
		{"not JSON", "hello", 0},
		{"cut off", valid[:len(valid)/2], 0},
		{"two of them", valid + valid, 0},
		{"a list", "[" + valid + "]", 0},
		{"another kind", strings.Replace(valid, `"AdmissionReview"`, `"Pod"`, 1), 0},
		{"another version", strings.Replace(valid, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), 0},
		{"no request", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 0},
		{"deep", deep, 0},
		{"deep in the review", strings.Replace(valid, `"request":`, `"more":`+deep+`,"request":`, 1), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, answer, err := post(t.Context(), client, []byte(tt.body))
			if err != nil || code != tt.code && (tt.code != 0 || code < 400 || code > 499) {
				t.Errorf("got %d %.200s (error %v), want %d", code, answer, err, tt.code)
			}
			expectAlive(t, client, pid, namespace)
		})
	}
	for name, object := range map[string]any{
		"not a pod":          json.RawMessage(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`),
		"wrong types":        json.RawMessage(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":"many"}}`),
		"nothing":            json.RawMessage(`{}`),
		"null":               json.RawMessage(`null`),
		"null in places":     json.RawMessage(`{"metadata":{"labels":{"serve":"atlas"},"annotations":null},"spec":{"containers":null}}`),
		"large numbers":      json.RawMessage(`{"metadata":{"labels":{"serve":"atlas"}},"spec":{"priority":99999999999999999999}}`),
		"deep in the object": json.RawMessage(`{"metadata":{"labels":{"serve":"atlas"}},"more":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`),
	} {
		t.Run(name, func(t *testing.T) {
			code, answer, err := post(t.Context(), client, reviewOf(t, namespace, object))
			if err != nil || code != http.StatusOK {
				t.Fatalf("got %d %.200s (error %v)", code, answer, err)
			}
			if response, err := decode(answer); err != nil || response.AuditAnnotations["outcome"] != "unwired" || response.Patch != nil {
				t.Errorf("got %.500s (error %v), want allowed without a patch", answer, err)
			}
			expectAlive(t, client, pid, namespace)
		})
	}
	t.Run("invalid UTF-8", func(t *testing.T) {
		body := strings.Replace(valid, `"name":"x"`, "\"name\":\"\xff\xfe\xc0\"", 1)
		code, answer, err := post(t.Context(), client, []byte(body))
		if err == nil && code == http.StatusOK {
			_, err = decode(answer)
		}
		if err != nil || code >= 500 {
			t.Errorf("got %d %s (error %v), want allowed or a 4xx", code, answer, err)
		}
		expectAlive(t, client, pid, namespace)
	})
	for _, tt := range []struct {
		method, path string
		code         int
	}{
		{http.MethodGet, pod.Path, http.StatusMethodNotAllowed},
		{http.MethodPut, pod.Path, http.StatusMethodNotAllowed},
		{http.MethodPost, "/", http.StatusNotFound},
		{http.MethodGet, "/metrics", http.StatusNotFound},
		{http.MethodGet, "/apis/inferencecache.io/v1alpha1/cachebackends", http.StatusNotFound},
		{http.MethodGet, "/debug/pprof/", http.StatusNotFound},
	} {
		if code, answer, err := request(t.Context(), client, tt.method, tt.path, nil); err != nil || code != tt.code {
			t.Errorf("%s %s: got %d %s (error %v), want %d", tt.method, tt.path, code, answer, err, tt.code)
		}
	}
}

// TestFlood asserts that a burst of pods, as after the loss of a zone, neither takes the server down nor fills the memory
// of its node: each pod is decided about or told to come again.
func TestFlood(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	client, pid := webhookClient(t), env.APIServerPID()
	expectAlive(t, client, pid, namespace)
	padded := newPod(namespace, "x")
	padded.Annotations = map[string]string{"padding": strings.Repeat("x", 50_000)}
	body := reviewOf(t, namespace, padded)
	var mutex sync.Mutex
	answers := map[string]int{}
	var requests sync.WaitGroup
	for range 1000 {
		requests.Go(func() {
			code, answer, err := post(t.Context(), client, body)
			key := strconv.Itoa(code)
			switch {
			case err != nil:
				t.Error(err)
			case code == http.StatusOK:
				response, err := decode(answer)
				if err != nil {
					t.Error(err)
					return
				}
				key += " " + response.AuditAnnotations["outcome"] + " " + response.AuditAnnotations["reason"]
			case code == http.StatusBadRequest && strings.Contains(string(answer), "i/o timeout"):
				// To the server, a sender that gets no processor time is a slow one.
			case code != http.StatusTooManyRequests:
				t.Errorf("got %d %s", code, answer)
			}
			mutex.Lock()
			defer mutex.Unlock()
			answers[key]++
		})
	}
	requests.Wait()
	most := residentPeak(t, pid)
	t.Logf("Answers: %v; at most %d MiB of memory", answers, most>>20)
	if answers["200 wired wired"] == 0 {
		t.Error("no pod was wired")
	}
	if most > 1536<<20 {
		t.Errorf("the server took %d MiB", most>>20)
	}
	expectAlive(t, client, pid, namespace)
}

// residentPeak is the most memory that a process has had, in bytes.
func residentPeak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0 // Only Linux has it.
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// TestSlowCallers asserts that callers who announce large reviews and do not send them hold up the others for no longer
// than the registration's timeout, and that pods are created meanwhile.
func TestSlowCallers(t *testing.T) {
	serving(t)
	namespace := newNamespace(t, nil)
	createBackend(t, newBackend(namespace, "a"))
	tlsConfig := webhookClient(t).Transport.(*http.Transport).TLSClientConfig
	dialer := &tls.Dialer{Config: tlsConfig}
	for range 20 {
		connection, err := dialer.DialContext(t.Context(), "tcp", webhookAddress())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: webhook\r\nContent-Length: %d\r\n\r\n{", pod.Path, 4<<20); err != nil {
			t.Fatal(err)
		}
	}
	create(t, newPod(namespace, "meanwhile"), forReal)
	eventually(t, "pods are wired though the slow callers have not hung up", func(ctx context.Context) error {
		got, err := tryCreate(ctx, newPod(namespace, "x"), dryRun)
		if err == nil && got.outcome() != "wired" {
			err = fmt.Errorf("audit %v", got.audit)
		}
		return err
	})
}
