// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// backendsFunc reads backends from where a test has them.
type backendsFunc func(ctx context.Context, namespace string) ([]inferencecache.CacheBackend, error)

func (f backendsFunc) InNamespace(ctx context.Context, namespace string) ([]inferencecache.CacheBackend, error) {
	return f(ctx, namespace)
}

func stored(backends ...inferencecache.CacheBackend) backendsFunc {
	return func(_ context.Context, namespace string) ([]inferencecache.CacheBackend, error) {
		var found []inferencecache.CacheBackend
		for _, backend := range backends {
			if backend.Namespace == namespace {
				found = append(found, backend)
			}
		}
		return found, nil
	}
}

func hostOnly(name string) inferencecache.CacheBackend {
	return inferencecache.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name, UID: "uid-1"},
		Spec: inferencecache.CacheBackendSpec{
			Runtime:        inferencecache.RuntimeVLLM,
			Type:           inferencecache.CacheTypeLMCache,
			EngineSelector: &inferencecache.EngineSelector{MatchLabels: map[string]string{"app": "engine"}},
		},
	}
}

const enginePod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"app":"engine"}},` +
	`"spec":{"containers":[{"name":"vllm","image":"i"}]}}`

func reviewOf(object string) []byte {
	data, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "request", Namespace: "test", Operation: admissionv1.Create,
			Object: kruntime.RawExtension{Raw: []byte(object)},
		},
	})
	if err != nil {
		panic(err)
	}
	return data
}

// send posts a body to the handler of the backends.
func send(t testing.TB, backends Backends, body io.Reader) (int, *admissionv1.AdmissionResponse) {
	t.Helper()
	handler := NewHandler(&Decider{Backends: backends, Subscriber: engine.Subscriber{}})
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, body))
	if recorder.Code != http.StatusOK {
		return recorder.Code, nil
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil {
		t.Fatalf("decoding the answer: %v", err)
	}
	if review.Response == nil || !review.Response.Allowed || review.Response.UID != "request" {
		t.Fatalf("the answer is %+v, want allowed", review.Response)
	}
	return recorder.Code, review.Response
}

func TestReasonIsSaidEverywhere(t *testing.T) {
	t.Parallel()
	failing := backendsFunc(func(context.Context, string) ([]inferencecache.CacheBackend, error) {
		return nil, errors.New("etcd is gone\nfor good")
	})
	managed := hostOnly("managed")
	managed.Spec.RemoteStorage = &inferencecache.RemoteStorageSpec{
		Provider: inferencecache.StorageProviderLMCacheServer, Ownership: inferencecache.StorageOwnershipManaged,
	}
	for _, tt := range []struct {
		name     string
		backends Backends
		object   string
		outcome  Outcome
		reason   Reason
		message  string
		warns    string
	}{
		{"wired", stored(hostOnly("a")), enginePod, Wired, ReasonWired, "wired to test/a", ""},
		{"ambiguous", stored(hostOnly("b"), hostOnly("a"), hostOnly("c")), enginePod, Wired, ReasonWired, "wired to test/a", "a is taken as the first by name, not b, c"},
		{"no match", stored(), enginePod, Unwired, ReasonNoMatch, "no matching CacheBackend", ""},
		{"lookup failed", failing, enginePod, Unwired, ReasonLookupFailed, "lookup failed: reading the backends of namespace test: etcd is gone for good", "lookup failed"},
		{"endpoint missing", stored(managed), enginePod, Unwired, ReasonEndpointMissing, "status.endpoint", "status.endpoint"},
		{"wrong kind", stored(), `{"apiVersion":"v1","kind":"Secret"}`, Unwired, ReasonDecodeFailed, "decode failed", "decode failed"},
		{"not an object", stored(), `[1]`, Unwired, ReasonDecodeFailed, "decode failed", "decode failed"},
		{"wrong type", stored(), `{"spec":{"containers":7}}`, Unwired, ReasonDecodeFailed, "decode failed", "decode failed"},
		{"opt-out", failing, strings.Replace(enginePod, `"name":"p"`, `"name":"p","annotations":{"inferencecache.io/skip-inject":"true"}`, 1),
			Skipped, ReasonSkipped, "inferencecache.io/skip-inject", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, response := send(t, tt.backends, bytes.NewReader(reviewOf(tt.object)))
			if code != http.StatusOK {
				t.Fatalf("got %d", code)
			}
			audit := response.AuditAnnotations
			if audit["outcome"] != string(tt.outcome) || audit["reason"] != string(tt.reason) || !strings.Contains(audit["message"], tt.message) {
				t.Errorf("audit annotations are %v", audit)
			}
			if !strings.Contains(response.Result.Message, tt.message) {
				t.Errorf("message is %q, want %q in it", response.Result.Message, tt.message)
			}
			if got := strings.Join(response.Warnings, "; "); (tt.warns == "") != (got == "") || !strings.Contains(got, tt.warns) {
				t.Errorf("warnings are %q, want %q in them", got, tt.warns)
			}
		})
	}
}

// TestHostileBodies sends what no API server sends. The answer is a 4xx or allows.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)
	for name, body := range map[string]string{
		"empty":             "",
		"null":              "null",
		"list":              "[]",
		"text":              "hello",
		"no request":        `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		"another kind":      `{"apiVersion":"v1","kind":"Pod","request":{"uid":"request"}}`,
		"another version":   `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"request"}}`,
		"no uid":            `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`,
		"cut off":           string(reviewOf(enginePod)[:100]),
		"invalid utf-8":     strings.Replace(string(reviewOf(enginePod)), "vllm", "vl\xfflm", 1),
		"deep nesting":      strings.Replace(string(reviewOf(`"DEEP"`)), `"DEEP"`, deep, 1),
		"ten megabytes":     strings.Replace(string(reviewOf(enginePod)), "vllm", strings.Repeat("v", 10<<20), 1),
		"an update":         strings.Replace(string(reviewOf(enginePod)), "CREATE", "UPDATE", 1),
		"null object":       string(reviewOf("null")),
		"null containers":   string(reviewOf(strings.Replace(enginePod, `[{"name":"vllm","image":"i"}]`, "[null]", 1))),
		"huge quantity":     string(reviewOf(strings.Replace(enginePod, `"image":"i"`, `"image":"i","resources":{"limits":{"nvidia.com/gpu":"1e2000000000"}}`, 1))),
		"many environments": string(reviewOf(strings.Replace(enginePod, `"image":"i"`, `"image":"i","env":[`+strings.Repeat(`{"name":"A"},`, 100_000)+`{"name":"B"}]`, 1))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _ := send(t, stored(hostOnly("a")), strings.NewReader(body))
			if code != http.StatusOK && (code < 400 || code > 499) {
				t.Errorf("got %d", code)
			}
		})
	}
}

func TestMethodsOtherThanPost(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	NewHandler(&Decider{}).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil))
	if recorder.Code != http.StatusMethodNotAllowed {
		t.Errorf("got %d", recorder.Code)
	}
}

// TestReviewsTakeTurns sends a thousand large reviews at a time. The handler has few of them
// in memory, however many there are.
func TestReviewsTakeTurns(t *testing.T) {
	t.Parallel()
	handler := NewHandler(&Decider{Backends: stored(hostOnly("a"))})
	body := []byte(strings.Replace(string(reviewOf(enginePod)), `"image":"i`, `"image":"`+strings.Repeat("i", 300<<10), 1))
	var reading, most atomic.Int64
	var group sync.WaitGroup
	codes := make(chan int, 1000)
	for range cap(codes) {
		group.Go(func() {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, &countingReader{Reader: bytes.NewReader(body), now: &reading, most: &most})
			request.ContentLength = int64(len(body))
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			codes <- recorder.Code
		})
	}
	group.Wait()
	close(codes)
	answered := 0
	for code := range codes {
		switch code {
		case http.StatusOK:
			answered++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("got %d", code)
		}
	}
	if answered == 0 {
		t.Error("none was answered")
	}
	if got := most.Load(); got > maxLarge {
		t.Errorf("%d large reviews were read at a time, want at most %d", got, maxLarge)
	}
}

// countingReader counts the bodies that have been begun and not finished.
type countingReader struct {
	io.Reader
	begun     bool
	now, most *atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	if !r.begun {
		r.begun = true
		now := r.now.Add(1)
		for most := r.most.Load(); now > most && !r.most.CompareAndSwap(most, now); most = r.most.Load() {
			continue
		}
	}
	n, err := r.Reader.Read(p)
	if err != nil {
		r.now.Add(-1)
	}
	return n, err
}

// TestManySmallObjects sends a body whose objects are a hundred times as large in memory.
func TestManySmallObjects(t *testing.T) {
	t.Parallel()
	body := reviewOf(`{"metadata":{"labels":{"app":"engine"}},"spec":{"containers":[` + strings.Repeat("{},", 1_000_000) + `{}]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, response := send(t, stored(hostOnly("a")), bytes.NewReader(body))
	runtime.ReadMemStats(&after)
	if response.AuditAnnotations["reason"] != string(ReasonDecodeFailed) {
		t.Errorf("got %v", response.AuditAnnotations)
	}
	if took, limit := after.TotalAlloc-before.TotalAlloc, uint64(256<<20); took > limit {
		t.Errorf("the answer took %d bytes, more than %d", took, limit)
	}
}

// TestCallerWhoTakesNoAnswer leaves the answers of many reviews untaken. Others are answered
// all the same.
func TestCallerWhoTakesNoAnswer(t *testing.T) {
	t.Parallel()
	handler := NewHandler(&Decider{Backends: stored(hostOnly("a"))})
	release := make(chan struct{})
	var group sync.WaitGroup
	arrived := make(chan struct{}, 2*maxAtOnce)
	for range cap(arrived) {
		group.Go(func() {
			writer := stuckWriter{ResponseRecorder: httptest.NewRecorder(), arrived: arrived, release: release}
			handler.ServeHTTP(writer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(reviewOf(enginePod))))
		})
	}
	for range cap(arrived) {
		<-arrived
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(reviewOf(enginePod))))
	if recorder.Code != http.StatusOK {
		t.Errorf("got %d", recorder.Code)
	}
	close(release)
	group.Wait()
}

// stuckWriter does not take what is written before it is released.
type stuckWriter struct {
	*httptest.ResponseRecorder
	arrived chan<- struct{}
	release <-chan struct{}
}

func (w stuckWriter) Write(p []byte) (int, error) {
	w.arrived <- struct{}{}
	<-w.release
	return w.ResponseRecorder.Write(p)
}
