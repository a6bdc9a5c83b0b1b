// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"
)

const (
	// Path is where the webhook is served.
	Path = "/mutate--v1-pod"

	// maxBodyBytes is more than any pod that kube-apiserver takes, in its review.
	maxBodyBytes = 4 << 20
	// maxBytesInFlight bounds how much of all reviews is in memory at a time, and
	// minBytes how many there are: an ordinary review has some ten kilobytes.
	maxBytesInFlight = 16 << 20
	minBytes         = 64 << 10
	// maxWait is how long a review waits for its turn. Afterwards the caller's own
	// timeout would be the next to strike.
	maxWait = 2 * time.Second
	// readTimeout bounds the reading of a body, which holds its room meanwhile. It is the
	// timeout of the registration.
	readTimeout = 3 * time.Second
	// maxTextBytes bounds what is sent back in words.
	maxTextBytes = 1024
)

// Handler answers AdmissionReviews about the creation of Pods.
type Handler struct {
	decider *Decider
	// bytes are taken by a review for as long as it is in memory.
	bytes *semaphore.Weighted
}

// NewHandler returns the HTTP side of a decider.
func NewHandler(decider *Decider) *Handler {
	registerMetrics()
	return &Handler{decider: decider, bytes: semaphore.NewWeighted(maxBytesInFlight)}
}

// ServeHTTP answers one review. Reviews that cannot be read get a 4xx, which the cluster
// ignores by the registration's failure policy; all others are allowed.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	start := time.Now()
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "an AdmissionReview is sent by POST", http.StatusMethodNotAllowed)
		return
	}
	release, ok := h.takeTurn(req)
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many reviews at a time", http.StatusTooManyRequests)
		return
	}
	defer release()
	// Not every writer has a deadline to set; those of the server do.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	review, code, err := readReview(w, req)
	if err != nil {
		http.Error(w, err.Error(), code)
		return
	}
	response, decision := h.respond(req, review.Request)
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	})
	if err != nil {
		http.Error(w, "encoding the response: "+err.Error(), http.StatusInternalServerError)
		return
	}
	observe(decision, time.Since(start))
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		klog.FromContext(req.Context()).V(4).Info("The caller of the pod webhook has gone", "err", err)
	}
}

// takeTurn waits until there is room for the review.
func (h *Handler) takeTurn(req *http.Request) (release func(), ok bool) {
	size := req.ContentLength
	if size < 0 || size > maxBodyBytes {
		size = maxBodyBytes
	}
	size = max(size, minBytes)
	ctx, cancel := context.WithTimeout(req.Context(), maxWait)
	defer cancel()
	if h.bytes.Acquire(ctx, size) != nil {
		return nil, false
	}
	return func() { h.bytes.Release(size) }, true
}

// readReview reads the body, or returns the status code that tells what is wrong with it.
func readReview(w http.ResponseWriter, req *http.Request) (*admissionv1.AdmissionReview, int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the review is larger than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("reading the review: %w", err)
	}
	review := &admissionv1.AdmissionReview{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("decoding the review: %w", err)
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the body must be an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion)
	}
	if review.Request.UID == "" {
		return nil, http.StatusBadRequest, errors.New("the request of the review has no uid")
	}
	return review, http.StatusOK, nil
}

// respond decides about the request and says so in every way there is: the audit log, the
// response and, where somebody should act, a warning.
func (h *Handler) respond(req *http.Request, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, Decision) {
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	decision, patch := h.review(req, request)
	if patch != nil {
		response.Patch = patch
		response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	}
	message := printable(decision.Message)
	response.Result = &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK, Message: message}
	response.AuditAnnotations = map[string]string{
		"outcome": string(decision.Outcome),
		"reason":  string(decision.Reason),
		"message": message,
	}
	if decision.Backend != "" {
		response.AuditAnnotations["backend"] = decision.Backend
	}
	for _, warning := range decision.Warnings {
		response.Warnings = append(response.Warnings, printable(warning))
	}
	return response, decision
}

// review returns the decision and the patch that carries it out, nil if nothing changes.
func (h *Handler) review(req *http.Request, request *admissionv1.AdmissionRequest) (Decision, []byte) {
	if request.Operation != admissionv1.Create || request.SubResource != "" {
		// The registration asks for creations alone. A pod that exists cannot be wired.
		return unwired(nil, nil, refuse(ReasonNoMatch, "the request is not the creation of a pod")), nil
	}
	pod, err := decodePod(request)
	if err != nil {
		return unwired(nil, nil, refuse(ReasonDecodeFailed, "decode failed: %v", err)), nil
	}
	decision := h.decider.Decide(req.Context(), pod, request.Namespace)
	if decision.Pod == pod {
		return decision, nil
	}
	patch, err := patchFor(request.Object.Raw, pod, decision.Pod)
	if err != nil {
		return unwired(pod, nil, refuse(ReasonEncodeFailed, "re-encode failed: %v", err)), nil
	}
	return decision, patch
}

func decodePod(request *admissionv1.AdmissionRequest) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, pod); err != nil {
		return nil, err
	}
	if pod.Kind != "" && (pod.Kind != "Pod" || pod.APIVersion != "v1") {
		return nil, fmt.Errorf("the object is a %s of %s", pod.Kind, pod.APIVersion)
	}
	return pod, nil
}

// printable makes a text fit for headers and logs: one line, bounded, nothing unprintable.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= maxTextBytes {
		return text
	}
	cut := maxTextBytes - len("...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
