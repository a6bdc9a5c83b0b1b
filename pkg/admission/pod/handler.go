// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
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

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"
)

// Path is where the webhook is served.
const Path = "/mutate--v1-pod"

// The limits of one review. kube-apiserver waits for three seconds, and wants an answer to
// pass on by then.
const (
	// budget is the time from arrival to the answer.
	budget = 2 * time.Second
	// maxWait is the part of it that may be spent waiting for a turn.
	maxWait = 500 * time.Millisecond
	// writeTimeout is what a caller gets to take the answer.
	writeTimeout = time.Second
	// maxBodyBytes is more than any pod that kube-apiserver takes, in its review.
	maxBodyBytes = 4 << 20
	// largeBodyBytes is more than an ordinary review has. Larger ones share few places,
	// and take theirs before they are read.
	largeBodyBytes = 256 << 10
	maxLarge       = 2
	// maxAtOnce bounds how many reviews are worked on.
	maxAtOnce = 32
	// maxObjects bounds the JSON objects of a pod: each takes hundreds of bytes in memory,
	// however few it has in the body.
	maxObjects = 10_000
	// maxTextBytes bounds what is sent back in words.
	maxTextBytes = 1024
)

// Handler answers AdmissionReviews about the creation of Pods.
type Handler struct {
	decider *Decider
	work    places
	large   places
}

// NewHandler returns the HTTP side of a decider.
func NewHandler(decider *Decider) *Handler {
	registerMetrics()
	return &Handler{decider: decider, work: make(places, maxAtOnce), large: make(places, maxLarge)}
}

// ServeHTTP answers one review. Reviews that cannot be read get a 4xx, which the cluster
// ignores by the registration's failure policy; all others are allowed.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithDeadline(req.Context(), start.Add(budget))
	defer cancel()
	// Not every writer has deadlines to set; those of the server do.
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(start.Add(budget))
	_ = controller.SetWriteDeadline(start.Add(budget + writeTimeout))

	body, decision, err := h.answer(ctx, w, req)
	if err != nil {
		observeError(err.code)
		http.Error(w, err.Error(), err.code)
		return
	}
	observe(decision, time.Since(start))
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(body); err != nil {
		klog.FromContext(ctx).V(4).Info("The caller of the pod webhook has gone", "err", err)
	}
}

// answer returns the encoded answer. All places are free again by then: a caller who does
// not take the answer keeps nobody else waiting.
func (h *Handler) answer(ctx context.Context, w http.ResponseWriter, req *http.Request) ([]byte, Decision, *reviewError) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, Decision{}, &reviewError{http.StatusMethodNotAllowed, errors.New("an AdmissionReview is sent by POST")}
	}
	if req.ContentLength < 0 || req.ContentLength > largeBodyBytes {
		if !h.large.take(ctx) {
			return nil, Decision{}, errBusy
		}
		defer h.large.free()
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, Decision{}, &reviewError{http.StatusRequestEntityTooLarge, fmt.Errorf("the review is larger than %d bytes", tooLarge.Limit)}
	}
	if err != nil {
		return nil, Decision{}, &reviewError{http.StatusBadRequest, fmt.Errorf("reading the review: %w", err)}
	}
	if !h.work.take(ctx) {
		return nil, Decision{}, errBusy
	}
	defer h.work.free()
	review, err := decodeReview(data)
	if err != nil {
		return nil, Decision{}, &reviewError{http.StatusBadRequest, err}
	}
	response, decision := h.respond(ctx, review.Request)
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	})
	if err != nil {
		return nil, Decision{}, &reviewError{http.StatusInternalServerError, fmt.Errorf("encoding the response: %w", err)}
	}
	return body, decision, nil
}

// reviewError is why a review gets no answer.
type reviewError struct {
	code int
	error
}

// errBusy says nothing about trying again: kube-apiserver would do so, and make it worse.
var errBusy = &reviewError{http.StatusTooManyRequests, errors.New("too many reviews at a time")}

// places are taken by reviews for as long as they are in memory.
type places chan struct{}

// take waits for a free place, for a short time.
func (p places) take(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case p <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p places) free() { <-p }

func decodeReview(data []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, review); err != nil {
		return nil, fmt.Errorf("decoding the review: %w", err)
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, fmt.Errorf("the body must be an AdmissionReview of %s with a request", admissionv1.SchemeGroupVersion)
	}
	if review.Request.UID == "" {
		return nil, errors.New("the request of the review has no uid")
	}
	return review, nil
}

// respond decides about the request and says so in every way there is: the audit log, the
// response and, where somebody should act, a warning.
func (h *Handler) respond(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, Decision) {
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	decision, patch := h.review(ctx, request)
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
func (h *Handler) review(ctx context.Context, request *admissionv1.AdmissionRequest) (Decision, []byte) {
	if request.Operation != admissionv1.Create || request.SubResource != "" {
		// The registration asks for creations alone. A pod that exists cannot be wired.
		return unwired(nil, nil, refuse(ReasonNoMatch, "the request is not the creation of a pod")), nil
	}
	pod, err := decodePod(request)
	if err != nil {
		return unwired(nil, nil, refuse(ReasonDecodeFailed, "decode failed: %v", err)), nil
	}
	decision := h.decider.Decide(ctx, pod, request.Namespace)
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
	if objects := bytes.Count(request.Object.Raw, []byte("{")); objects > maxObjects {
		return nil, fmt.Errorf("the object has %d parts, more than the %d that are read", objects, maxObjects)
	}
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
