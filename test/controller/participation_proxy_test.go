// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// faultyProxy stands between the controller and kube-apiserver, where it has the controller's identity. It can fail the lists
// of pods of a namespace, which nothing in Kubernetes does on demand.
type faultyProxy struct {
	kubeconfig string

	mutex   sync.Mutex
	failing map[string]bool
}

func newFaultyProxy(t *testing.T) *faultyProxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", env.Controller.Kubeconfig)
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	p := &faultyProxy{failing: map[string]bool{}, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // Watches must not wait for a buffer to fill.
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if p.fails(request.URL.Path) {
			http.Error(w, "etcd has no leader", http.StatusInternalServerError)
			return
		}
		forward.ServeHTTP(w, request)
	}))
	// Watches go on as long as the controller does, which is stopped after this.
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })

	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	kubeconfig.CurrentContext = "proxy"
	must(t, clientcmd.WriteToFile(*kubeconfig, p.kubeconfig))
	return p
}

func (p *faultyProxy) failPods(namespace string, failing bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.failing["/api/v1/namespaces/"+namespace+"/pods"] = failing
}

func (p *faultyProxy) fails(path string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.failing[path]
}
