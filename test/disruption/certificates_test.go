// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

const serviceName = "inference-cache-apiserver.inference-cache-system.svc"

// TestServingCertificateRotation asserts that a serving certificate is replaced by replacing its files, in the way that a
// kubelet renews a mounted Secret. New connections get the new one; the server is not restarted, and requests through
// kube-apiserver succeed before and after. The authority changes too, which is why it is added to the caBundle first.
func TestServingCertificateRotation(t *testing.T) {
	installed(t)
	ca := newAuthority(t, "new-serving-ca")
	trust(t, ca)
	secret := newSecretVolume(t, map[string]string{"tls.crt": host.APIServer.CertFile, "tls.key": host.APIServer.KeyFile})
	restart(t, "--tls-cert-file="+secret.path("tls.crt"), "--tls-private-key-file="+secret.path("tls.key"))
	waitServing(t)
	pid := host.APIServerPID()

	for range 2 { // away from the old authority, and once more under the new one
		pair := ca.issue(t, serviceName, "localhost")
		secret.replace(t, map[string][]byte{"tls.crt": pair.certificate, "tls.key": pair.key})
		eventually(t, "the server shows its new certificate", func(ctx context.Context) error {
			return expectCertificate(ctx, pair)
		})
		waitAvailable(t, apiregistrationv1.ConditionTrue)
		expectBackendsReadable(t)
	}
	if got := host.APIServerPID(); got != pid {
		t.Errorf("the server has pid %d, it was %d", got, pid)
	}
}

// trust adds an authority to those that kube-apiserver trusts to sign our server's certificate, for the time of a test.
func trust(t *testing.T, ca *authority) {
	t.Helper()
	client, err := aggregatorclient.NewForConfig(host.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	services := client.ApiregistrationV1().APIServices()
	service, err := services.Get(t.Context(), apiServiceName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set := func(ctx context.Context, bundle []byte) {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": bundle}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := services.Patch(ctx, apiServiceName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	old := service.Spec.CABundle
	set(t.Context(), bytes.Join([][]byte{old, ca.pem}, []byte("\n")))
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), old) })
}

// expectCertificate demands that a new connection is shown that certificate.
func expectCertificate(ctx context.Context, want keyPair) error {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // who signed it is kube-apiserver's affair
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(host.APIServer.Port)))
	if err != nil {
		return err
	}
	defer connection.Close()
	shown := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if shown.SerialNumber.Cmp(want.serial) != 0 {
		return fmt.Errorf("it shows %s %s", shown.Subject, shown.SerialNumber)
	}
	return nil
}

func expectBackendsReadable(t *testing.T) {
	t.Helper()
	if got := aggregated(t).ask(t, http.MethodGet, "/apis/"+groupVersion+"/cachebackends", ""); got.code != http.StatusOK {
		t.Errorf("a list is answered %d %s", got.code, got.body)
	}
}

// secretVolume is a folder as a kubelet makes it from a Secret: the names are links through ..data to a folder that is
// replaced as a whole.
type secretVolume struct {
	dir   string
	count int
}

func newSecretVolume(t *testing.T, files map[string]string) *secretVolume {
	t.Helper()
	s := &secretVolume{dir: t.TempDir()}
	contents := map[string][]byte{}
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		contents[name] = data
		if err := os.Symlink(filepath.Join("..data", name), s.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.replace(t, contents)
	return s
}

func (s *secretVolume) path(name string) string {
	return filepath.Join(s.dir, name)
}

// replace changes all files at once, and removes the old ones.
func (s *secretVolume) replace(t *testing.T, contents map[string][]byte) {
	t.Helper()
	old, _ := os.Readlink(s.path("..data")) // none the first time
	s.count++
	fresh := fmt.Sprintf("..version-%d", s.count)
	if err := os.Mkdir(s.path(fresh), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range contents {
		writeFile(t, s.path(fresh), name, data)
	}
	if err := os.Symlink(fresh, s.path("..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.path("..data_tmp"), s.path("..data")); err != nil {
		t.Fatal(err)
	}
	if old != "" {
		if err := os.RemoveAll(s.path(old)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFrontProxyRotation asserts that the server follows the cluster's front-proxy authorities: a proxy certificate that
// a new authority signed is believed as soon as the cluster publishes that authority, and no longer than it does.
func TestFrontProxyRotation(t *testing.T) {
	installed(t)
	ca := newAuthority(t, "new-front-proxy-ca")
	proxy := frontProxy(t, ca)
	ask := func(ctx context.Context, want int) error {
		got, err := proxy.askAs(ctx, "somebody", "system:masters")
		if err == nil && got.code != want {
			err = fmt.Errorf("got %d %s, want %d", got.code, got.body, want)
		}
		return err
	}
	if err := ask(t.Context(), http.StatusUnauthorized); err != nil {
		t.Fatalf("a proxy of an unknown authority: %v", err)
	}

	restore := publishFrontProxy(t, ca)
	eventually(t, "the new authority is believed", func(ctx context.Context) error { return ask(ctx, http.StatusOK) })
	waitAvailable(t, apiregistrationv1.ConditionTrue)
	expectBackendsReadable(t)
	restore()
	eventually(t, "the new authority is not believed any more", func(ctx context.Context) error { return ask(ctx, http.StatusUnauthorized) })
	waitAvailable(t, apiregistrationv1.ConditionTrue)
	expectBackendsReadable(t)
}

// frontProxy is our server, asked as a proxy whose certificate that authority signed.
func frontProxy(t *testing.T, ca *authority) endpoint {
	t.Helper()
	pair := ca.issue(t, "front-proxy-client")
	config := directConfig(host.RESTConfig(), host.APIServer.Port)
	config.CertFile, config.KeyFile = "", ""
	config.CertData, config.KeyData = pair.certificate, pair.key
	return newEndpoint(t, config)
}

// publishFrontProxy adds an authority to those of the cluster's front proxies, and returns how to take it away.
func publishFrontProxy(t *testing.T, ca *authority) (restore func()) {
	t.Helper()
	const name, key = "extension-apiserver-authentication", "requestheader-client-ca-file"
	client := kube(t).CoreV1().ConfigMaps("kube-system")
	published, err := client.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := published.Data[key]
	set := func(ctx context.Context, bundle string) {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{key: bundle}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	restore = func() { set(context.WithoutCancel(t.Context()), old) }
	t.Cleanup(restore)
	set(t.Context(), old+string(ca.pem))
	return restore
}
