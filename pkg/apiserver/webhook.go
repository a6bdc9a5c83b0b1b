// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/admission/pod"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apiserver/storeidentity"
	"inferencecache.io/inferencecache/pkg/registry/cachebackend"
)

// validate checks the options.
func (o *WebhookOptions) validate(apiPort int) []error {
	var errs []error
	if o.Port < 1 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-port must be from 1 to 65535, not %d", o.Port))
	}
	if o.Port == apiPort {
		errs = append(errs, fmt.Errorf("--webhook-port must not be the --secure-port, %d", apiPort))
	}
	if _, _, err := net.SplitHostPort(o.Subscriber.ServerAddress); err != nil {
		errs = append(errs, fmt.Errorf("--policy-server-grpc-address must be host:port: %w", err))
	}
	return errs
}

// webhookDrain is how long reviews that are under way may take when the server stops. It
// is the timeout of the registration.
const webhookDrain = 3 * time.Second

// WebhookOptions says how the Pod webhook is served and what it adds to pods.
type WebhookOptions struct {
	// Port is the port of the listener, beside the API's and with its certificate.
	Port int
	// Listener is used in place of Port if it is set.
	Listener net.Listener
	// ClientCAFile holds the authorities that callers need a certificate of. Without it
	// anybody may call.
	ClientCAFile string
	// Subscriber is the KV-event subscriber that engine pods get.
	Subscriber engine.Subscriber
}

func newWebhookOptions() WebhookOptions {
	return WebhookOptions{
		Port:       9443,
		Subscriber: engine.Subscriber{ServerAddress: engine.DefaultServerAddress},
	}
}

func (o *WebhookOptions) addFlags(flags *pflag.FlagSet) {
	flags.IntVar(&o.Port, "webhook-port", o.Port,
		"Port of the Pod webhook, served on --bind-address with the certificate of the API.")
	flags.StringVar(&o.ClientCAFile, "webhook-client-ca-file", o.ClientCAFile,
		"Authorities of the certificates that callers of the Pod webhook must present. Without it no certificate is asked for.")
	flags.StringVar(&o.Subscriber.Image, "kvevent-subscriber-image", o.Subscriber.Image,
		"Image of the KV-event subscriber that is added to engine pods. Without it none is added.")
	flags.StringVar(&o.Subscriber.ServerAddress, "policy-server-grpc-address", o.Subscriber.ServerAddress,
		"Address, as host:port, of the cache server that subscribers report to.")
}

// webhook is the Pod webhook on a listener of its own.
type webhook struct {
	serving *genericapiserver.SecureServingInfo
	handler http.Handler

	stopping chan struct{}
	// mu guards the two below: a server can be told to stop while it starts.
	mu      sync.Mutex
	stopped <-chan struct{} // closed when the last review is answered; nil before the start
	ended   bool
}

// newWebhook opens the listener of the webhook. The cluster's own handler chain is not for
// it: whoever calls is kube-apiserver, and an answer must not depend on the cluster.
func newWebhook(o WebhookOptions, c *config, backends cachebackend.Live) (*webhook, error) {
	listener := o.Listener
	if listener == nil {
		host, _, err := net.SplitHostPort(c.generic.SecureServing.Listener.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("finding the address of the pod webhook: %w", err)
		}
		address := net.JoinHostPort(host, strconv.Itoa(o.Port))
		if listener, err = net.Listen("tcp", address); err != nil {
			return nil, fmt.Errorf("listening for the pod webhook: %w", err)
		}
	}
	handler := http.NewServeMux()
	handler.Handle(pod.Path, pod.NewHandler(&pod.Decider{
		Backends:   guardedBackends{backends: backends, guard: c.guard},
		Subscriber: o.Subscriber,
	}))
	w := &webhook{
		handler:  recoverPanics(handler),
		stopping: make(chan struct{}),
		serving: &genericapiserver.SecureServingInfo{
			Listener:      listener,
			Cert:          shared{c.generic.SecureServing.Cert},
			MinTLSVersion: c.generic.SecureServing.MinTLSVersion,
			CipherSuites:  c.generic.SecureServing.CipherSuites,
		},
	}
	if o.ClientCAFile == "" {
		return w, nil
	}
	authorities, err := dynamiccertificates.NewDynamicCAContentFromFile("webhook-client-ca", o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading --webhook-client-ca-file: %w", err)
	}
	w.serving.ClientCA = authorities
	w.handler = demandCertificate(w.handler, authorities)
	return w, nil
}

// install makes the webhook start and stop with the API server. At the end it goes on for
// as long as the cluster may still send it pods, and stops before the API does, whose store
// it reads.
func (w *webhook) install(server *genericapiserver.GenericAPIServer, delay time.Duration) error {
	if err := server.AddPostStartHook("pod-webhook", func(genericapiserver.PostStartHookContext) error {
		return w.start()
	}); err != nil {
		return err
	}
	return server.AddPreShutdownHook("pod-webhook", func() error {
		time.Sleep(delay)
		w.stop()
		return nil
	})
}

func (w *webhook) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	var err error
	if w.stopped, _, err = w.serving.Serve(w.handler, webhookDrain, w.stopping); err != nil {
		return fmt.Errorf("serving the pod webhook: %w", err)
	}
	return nil
}

// stop waits until the reviews that are under way are answered. It may be called more than
// once, and before the start.
func (w *webhook) stop() {
	w.mu.Lock()
	stopped, ended := w.stopped, w.ended
	w.ended = true
	w.mu.Unlock()
	if !ended {
		close(w.stopping)
	}
	if stopped == nil {
		// Nobody serves the listener, so nobody else closes it.
		_ = w.serving.Listener.Close()
		return
	}
	<-stopped
}

// shared is the certificate of the API's listener, whose files the API's listener watches.
// Only the interface is embedded, so that nobody finds the watching in it a second time.
type shared struct {
	dynamiccertificates.CertKeyContentProvider
}

// guardedBackends reads no backends from a store that is not known to be the cluster's.
type guardedBackends struct {
	backends cachebackend.Live
	guard    *storeidentity.Guard
}

func (g guardedBackends) InNamespace(ctx context.Context, namespace string) ([]inferencecache.CacheBackend, error) {
	if g.guard != nil {
		if err := g.guard.Err(); err != nil {
			return nil, err
		}
	}
	return g.backends.InNamespace(ctx, namespace)
}

// recoverPanics keeps a fault that one pod brings out from taking the server down.
func recoverPanics(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			if reason := recover(); reason != nil {
				klog.FromContext(req.Context()).Error(nil, "Recovered from a panic in the pod webhook", "panic", reason, "stack", string(debug.Stack()))
				http.Error(w, "internal error", http.StatusInternalServerError)
			}
		}()
		handler.ServeHTTP(w, req)
	})
}

// demandCertificate turns callers away that have no certificate of the authorities.
func demandCertificate(handler http.Handler, authorities dynamiccertificates.CAContentProvider) http.Handler {
	certificates := x509.NewDynamic(authorities.VerifyOptions, x509.CommonNameUserConversion)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, ok, err := certificates.AuthenticateRequest(req); err != nil || !ok {
			http.Error(w, "a client certificate is needed", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, req)
	})
}
