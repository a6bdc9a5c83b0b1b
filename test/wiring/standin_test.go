// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// configurationName is that of our webhook's registration.
const configurationName = "inference-cache"

// webhookAddress is where kube-apiserver reaches our webhook.
func webhookAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(env.APIServer.WebhookPort))
}

// listenInPlace stops the API server and listens in its webhook's place.
func listenInPlace(t *testing.T) net.Listener {
	t.Helper()
	stopServer(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", webhookAddress())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

// standIn is a server in the place of our webhook, which can be told to behave otherwise at any time.
type standIn struct {
	server *httptest.Server
	calls  atomic.Int32

	mutex       sync.Mutex
	handler     http.HandlerFunc
	certificate tls.Certificate
}

// newStandIn starts a stand-in that admits every pod as it is.
func newStandIn(t *testing.T, certificate tls.Certificate) *standIn {
	t.Helper()
	s := &standIn{handler: allow, certificate: certificate}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.calls.Add(1)
		s.mutex.Lock()
		handler := s.handler
		s.mutex.Unlock()
		handler(w, req)
	}))
	s.server.Listener.Close()
	s.server.Listener = listenInPlace(t)
	s.server.EnableHTTP2 = true
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		return &s.certificate, nil
	}}
	s.server.StartTLS()
	// What httptest puts there would be preferred to GetCertificate.
	s.server.TLS.Certificates = nil
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// answer makes the stand-in answer in that way from now on.
func (s *standIn) answer(handler http.HandlerFunc) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.handler = handler
}

// present makes the stand-in show that certificate from now on.
func (s *standIn) present(certificate tls.Certificate) {
	s.mutex.Lock()
	s.certificate = certificate
	s.mutex.Unlock()
	s.server.CloseClientConnections()
}

// waitCalled waits until pods reach the stand-in.
func (s *standIn) waitCalled(t *testing.T) {
	t.Helper()
	eventually(t, "pods reach the stand-in", func(ctx context.Context) error {
		before := s.calls.Load()
		probe, err := tryCreate(ctx, newPod(metav1.NamespaceDefault, "probe"), dryRun)
		if err == nil && (s.calls.Load() == before || probe.failedOpen(webhookName)) {
			err = errors.New("it is not called, or not understood")
		}
		return err
	})
}

// allow admits a pod as it is.
func allow(w http.ResponseWriter, req *http.Request) {
	respond(w, req, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
}

// respond answers a review with what the function says about it.
func respond(w http.ResponseWriter, req *http.Request, decide func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	response := decide(review.Request)
	if response.UID == "" {
		response.UID = review.Request.UID
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the caller may have gone
}

// changeConfiguration changes the registration of our webhook for one test. It takes kube-apiserver a moment to notice.
func changeConfiguration(t *testing.T, change func(*admissionregistrationv1.MutatingWebhook)) {
	t.Helper()
	before := updateConfiguration(t.Context(), t, change)
	t.Cleanup(func() {
		updateConfiguration(context.Background(), t, func(webhook *admissionregistrationv1.MutatingWebhook) { *webhook = before })
	})
}

func updateConfiguration(ctx context.Context, t *testing.T, change func(*admissionregistrationv1.MutatingWebhook)) (before admissionregistrationv1.MutatingWebhook) {
	t.Helper()
	client := env.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		configuration, err := client.Get(ctx, configurationName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before = *configuration.Webhooks[0].DeepCopy()
		change(&configuration.Webhooks[0])
		_, err = client.Update(ctx, configuration, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return before
}
