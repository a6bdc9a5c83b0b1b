// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// direct is a client of the API server's own port, past kube-apiserver.
type direct struct {
	client *http.Client
	header http.Header
}

// dial returns a client with the credentials of a configuration, or none, and further headers.
func dial(t *testing.T, credentials *rest.Config, header http.Header) *direct {
	t.Helper()
	config := &rest.Config{}
	if credentials != nil {
		config = rest.CopyConfig(credentials)
	}
	config.TLSClientConfig.CAFile, config.TLSClientConfig.CAData = env.cluster.APIServer.CAFile, nil
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &direct{client: client, header: header}
}

func (d *direct) do(t *testing.T, method, path, body string) (code int, text string) {
	t.Helper()
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(env.cluster.APIServer.Port)) + path
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, d.header)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := d.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

func (d *direct) expect(t *testing.T, path string, want int) {
	t.Helper()
	if code, text := d.do(t, http.MethodGet, path, ""); code != want {
		t.Errorf("GET %s: got %d, want %d: %.300s", path, code, want, text)
	}
}

const (
	groupPath    = "/apis/inferencecache.io/v1alpha1"
	backendsPath = groupPath + "/cachebackends"
)

// closedPaths are all that the server has beside its health.
var closedPaths = []string{
	"/", "/api", "/apis", "/apis/inferencecache.io", groupPath, backendsPath, groupPath + "/namespaces/default/cachebackends/a",
	"/openapi/v2", "/openapi/v3", "/metrics", "/version", "/livez/ping", "/readyz/ping", "/flagz", "/statusz", "/configz",
	"/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v", "/nonsense",
}

// TestAnonymous checks that a stranger who reaches the port learns that the server lives, and nothing else.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	anonymous := dial(t, nil, nil)
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		anonymous.expect(t, path, http.StatusOK)
	}
	for _, path := range closedPaths {
		anonymous.expect(t, path, http.StatusUnauthorized)
	}
	if code, _ := anonymous.do(t, http.MethodPost, groupPath+"/namespaces/default/cachebackends", `{}`); code != http.StatusUnauthorized {
		t.Errorf("create: got %d", code)
	}
	badToken := dial(t, &rest.Config{BearerToken: "nonsense"}, nil)
	badToken.expect(t, backendsPath, http.StatusUnauthorized)
}

// remoteUser is what kube-apiserver adds to the requests that it passes on.
var remoteUser = http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}

// TestForgedIdentity checks that only kube-apiserver can say for whom a request is made.
func TestForgedIdentity(t *testing.T) {
	t.Parallel()
	without := dial(t, nil, remoteUser)
	for _, path := range closedPaths {
		without.expect(t, path, http.StatusUnauthorized)
	}

	// A certificate that the cluster has signed says who its owner is, and the header nothing.
	controller, err := clientcmd.BuildConfigFromFlags("", env.cluster.Controller.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	const tenants = groupPath + "/namespaces/default/cachetenants?dryRun=All"
	code, text := dial(t, controller, remoteUser).do(t, http.MethodPost, tenants, `{}`)
	if code != http.StatusForbidden || !strings.Contains(text, "system:serviceaccount:inference-cache-system:inference-cache-controller") {
		t.Errorf("with a certificate of the cluster: got %d %s", code, text)
	}

	// With the certificate of kube-apiserver's proxy the very same header counts.
	pki := filepath.Join(env.cluster.Dir, "pki")
	proxy := &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CertFile: filepath.Join(pki, "front-proxy-client.crt"), KeyFile: filepath.Join(pki, "front-proxy-client.key"),
	}}
	dial(t, proxy, remoteUser).expect(t, backendsPath, http.StatusOK)
	dial(t, proxy, http.Header{"X-Remote-User": {"nobody"}}).expect(t, backendsPath, http.StatusForbidden)
}

// TestDirectAccess checks that the server knows the cluster's users without kube-apiserver in between: by certificate and by
// token, with the same rights.
func TestDirectAccess(t *testing.T) {
	t.Parallel()
	admin := dial(t, env.config, nil)
	for _, path := range []string{backendsPath, groupPath, "/openapi/v3", "/version", "/metrics", "/livez/ping"} {
		admin.expect(t, path, http.StatusOK)
	}
	// Nobody can profile the server.
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/heap", "/debug/flags/v"} {
		admin.expect(t, path, http.StatusNotFound)
	}

	namespace := newNamespace(t)
	viewer := dial(t, &rest.Config{BearerToken: tokenOfViewer(t, namespace)}, nil)
	viewer.expect(t, groupPath+"/namespaces/"+namespace+"/cachebackends", http.StatusOK)
	for _, path := range []string{backendsPath, groupPath + "/namespaces/default/cachebackends", "/metrics", "/livez/ping"} {
		viewer.expect(t, path, http.StatusForbidden)
	}
}

// tokenOfViewer returns a token of an account that may view what is in the namespace.
func tokenOfViewer(t *testing.T, namespace string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}}
	if _, err := env.kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}
	bindRole(t, namespace, "view", subject, "system:serviceaccount:"+namespace+":"+account.Name, "watch")
	request, err := env.kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}
