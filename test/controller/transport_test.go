// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	requestinfo "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/controllers/cachebackend"
)

// passTimeout ends the passes of a process in a test: it has to be short, as some requests are never answered.
const passTimeout = 2 * time.Second

// call is a request on its way to the API server.
type call struct {
	*http.Request
	// what is its verb, resource and subresource, as in "patch cachebackends/status". Requests that fill the cache have
	// the verbs "cache list" and "cache watch".
	what string
}

var resolver = &requestinfo.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

func newCall(request *http.Request) (*call, error) {
	info, err := resolver.NewRequestInfo(request)
	if err != nil {
		return nil, err
	}
	verb, resource := info.Verb, info.Resource
	// What is listed for one pass are pods, and Deployments with any label.
	if verb == "watch" || verb == "list" && resource != "pods" && (resource != "deployments" || info.LabelSelector != "") {
		verb = "cache " + verb
	}
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	return &call{Request: request, what: verb + " " + resource}, nil
}

// isWrite says so of what a call is.
func isWrite(what string) bool {
	verb, _, _ := strings.Cut(what, " ")
	return slices.Contains([]string{"create", "update", "patch", "delete"}, verb)
}

// isCached says whether what a call is about is the filling of the cache.
func isCached(what string) bool { return strings.HasPrefix(what, "cache ") }

// sender sends a call on to the API server.
type sender func(*http.Request) (*http.Response, error)

// handler stands between a process and the API server.
type handler func(call *call, send sender) (*http.Response, error)

func pass(call *call, send sender) (*http.Response, error) { return send(call.Request) }

// wire is the connection of a process to the API server, which a test may spoil.
type wire struct {
	next http.RoundTripper

	mu     sync.Mutex
	handle handler
	calls  []string
}

func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	call, err := newCall(request)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.calls = append(w.calls, call.what)
	handle := w.handle
	w.mu.Unlock()
	return handle(call, w.next.RoundTrip)
}

// spoil puts a handler between the process and the API server, and returns how many calls there were before.
func (w *wire) spoil(handle handler) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handle = handle
	return len(w.calls)
}

// since returns what was asked of the API server after the first calls.
func (w *wire) since(count int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls[count:])
}

// process is the controller in this process and for one namespace. It has the rights of the real one, and no lease.
type process struct {
	wire
	stop func()
}

// startProcess starts the controller. It is stopped at the end of the test at the latest.
func startProcess(t *testing.T, namespace string, handle handler) *process {
	t.Helper()
	p := &process{wire: wire{handle: handle}}
	restConfig, err := clientcmd.BuildConfigFromFlags("", env.Controller.Kubeconfig)
	must(t, err)
	restConfig.QPS = -1
	restConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		p.next = next
		return &p.wire
	})
	log := &lockedBuffer{}
	manager, err := newManager(restConfig, namespace, log)
	must(t, err)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controller ended badly: %v", err)
		}
	})
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the log of the controller:\n%s", log)
		}
	})
	return p
}

func newManager(restConfig *rest.Config, namespace string, log *lockedBuffer) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{
		v1alpha1.Install, corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme,
	} {
		utilruntime.Must(install(scheme))
	}
	options := cachebackend.CacheOptions()
	options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	manager, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:  scheme,
		Cache:   options,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Logger:  textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log), textlogger.Verbosity(4))),
		// Many of them have the same name, one after the other and beside each other.
		Controller: config.Controller{SkipNameValidation: new(true), ReconciliationTimeout: passTimeout},
	})
	if err != nil {
		return nil, err
	}
	return manager, cachebackend.Add(manager, cachebackend.Options{})
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// withoutController keeps the cluster's controller away until the end of a test, which must not run beside others.
func withoutController(t *testing.T) {
	t.Helper()
	must(t, env.stopController())
	t.Cleanup(func() { must(t, env.startController(context.Background())) })
}
