// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"inferencecache.io/inferencecache/hack/cluster/stages"
)

// serviceRange is where Services get their addresses from; the first is that of kube-apiserver itself.
const (
	serviceRange   = "10.96.0.0/16"
	serviceAddress = "10.96.0.1"
	podRange       = "10.244.0.0/16"
)

// auditPolicy records who did what, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// startControlPlane starts Kubernetes and returns when a pod that is created will run.
func (s *supervisor) startControlPlane(ctx context.Context) error {
	etcdCA, err := newAuthority(s.dir.pki(), "etcd-ca")
	if err != nil {
		return err
	}
	if s.ca, err = newAuthority(s.dir.pki(), "ca"); err != nil {
		return err
	}
	etcd, err := s.startEtcd(ctx, etcdCA)
	if err != nil {
		return err
	}
	if err := s.startAPIServer(ctx, etcdCA, etcd); err != nil {
		return err
	}
	if err := createNodes(ctx, s.client, s.options.Nodes, s.programs.Kubernetes); err != nil {
		return err
	}
	return s.startFollowers(ctx)
}

// startEtcd returns the URL of an etcd that only clients with a certificate of its authority can use: it holds all
// secrets of the cluster and knows no users.
func (s *supervisor) startEtcd(ctx context.Context, ca *authority) (string, error) {
	port, err := s.ports.free()
	if err != nil {
		return "", err
	}
	peerPort, err := s.ports.free()
	if err != nil {
		return "", err
	}
	serving, err := ca.issue("etcd", certutil.Config{
		CommonName: "etcd", AltNames: loopbackNames(), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return "", err
	}
	url, peerURL := loopbackURL("https", port), loopbackURL("https", peerPort)
	p, err := s.start("etcd", s.programs.Path("etcd"), []string{
		"--name=local", "--data-dir=" + s.dir.path("etcd"),
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=local=" + peerURL,
		"--cert-file=" + serving.certFile, "--key-file=" + serving.keyFile, "--trusted-ca-file=" + ca.file, "--client-cert-auth",
		"--peer-cert-file=" + serving.certFile, "--peer-key-file=" + serving.keyFile, "--peer-trusted-ca-file=" + ca.file, "--peer-client-cert-auth",
		"--unsafe-no-fsync", // The data is thrown away with the cluster.
		"--log-level=warn",
	})
	if err != nil {
		return "", err
	}
	return url, p.waitReady(ctx, healthy(url+"/health", ca.pem(), serving))
}

func (s *supervisor) startAPIServer(ctx context.Context, etcdCA *authority, etcd string) error {
	port := s.options.Port
	if port == 0 {
		var err error
		if port, err = s.ports.free(); err != nil {
			return err
		}
	} else if err := checkPort(port); err != nil {
		return err
	}
	frontProxyCA, err := newAuthority(s.dir.pki(), "front-proxy-ca")
	if err != nil {
		return err
	}
	frontProxy, err := frontProxyCA.client("front-proxy-client", "front-proxy-client")
	if err != nil {
		return err
	}
	etcdClient, err := etcdCA.client("etcd-client", "kube-apiserver")
	if err != nil {
		return err
	}
	names := loopbackNames()
	names.DNSNames = append(names.DNSNames, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	names.IPs = append(names.IPs, net.ParseIP(serviceAddress))
	serving, err := s.ca.issue("kube-apiserver", certutil.Config{
		CommonName: "kube-apiserver", AltNames: names, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	saKey, saPub, err := newServiceAccountKey(s.dir.pki())
	if err != nil {
		return err
	}
	policy := s.dir.path("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}

	s.state.Server = loopbackURL("https", port)
	s.state.Kubeconfig = s.dir.path("admin.kubeconfig")
	if _, err := s.identity("admin", "admin", "system:masters"); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.state.Kubeconfig)
	if err != nil {
		return fmt.Errorf("loading the administrator's kubeconfig: %w", err)
	}
	config.QPS = -1
	s.config = config
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("creating client: %w", err)
	}

	p, err := s.start("kube-apiserver", s.programs.Path("kube-apiserver"), []string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--endpoint-reconciler-type=none", // EndpointSlices cannot carry loopback addresses.
		"--tls-cert-file=" + serving.certFile, "--tls-private-key-file=" + serving.keyFile,
		"--client-ca-file=" + s.ca.file, "--authorization-mode=RBAC", "--allow-privileged=true",
		"--etcd-servers=" + etcd, "--etcd-cafile=" + etcdCA.file,
		"--etcd-certfile=" + etcdClient.certFile, "--etcd-keyfile=" + etcdClient.keyFile,
		"--service-cluster-ip-range=" + serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + saPub, "--service-account-signing-key-file=" + saKey,
		"--requestheader-client-ca-file=" + frontProxyCA.file, "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontProxy.certFile, "--proxy-client-key-file=" + frontProxy.keyFile,
		"--audit-policy-file=" + policy, "--audit-log-path=" + s.dir.log("audit"),
		"--audit-log-maxsize=100", "--audit-log-maxbackup=1",
	})
	if err != nil {
		return err
	}
	return p.waitReady(ctx, func(ctx context.Context) error {
		return s.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// startFollowers starts the programs that only need kube-apiserver, all at once.
func (s *supervisor) startFollowers(ctx context.Context) error {
	documents, err := stages.Documents()
	if err != nil {
		return err
	}
	stagesFile := s.dir.path("stages.yaml")
	if err := os.WriteFile(stagesFile, documents, 0o644); err != nil {
		return fmt.Errorf("writing the stages: %w", err)
	}

	followers := []struct {
		name, user string
		groups     []string
		args       []string
		secured    bool
		process    *process
		port       int
	}{
		{name: "kube-controller-manager", user: "system:kube-controller-manager", secured: true, args: []string{
			"--use-service-account-credentials", "--service-account-private-key-file=" + s.dir.path("pki", "service-account.key"),
			"--root-ca-file=" + s.ca.file, "--service-cluster-ip-range=" + serviceRange,
			"--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400",
		}},
		{name: "kube-scheduler", user: "system:kube-scheduler", secured: true, args: []string{
			"--leader-elect=false", "--kube-api-qps=200", "--kube-api-burst=400",
		}},
		{name: "kwok", user: "kwok", groups: []string{"system:masters"}, args: []string{
			"--manage-all-nodes=true", "--node-lease-duration-seconds=40", "--node-ip=127.0.0.1", "--node-port=0", "--server-address=", "--cidr=" + podRange, "--config=" + stagesFile,
		}},
	}
	for i := range followers {
		f := &followers[i]
		kubeconfig, err := s.identity(f.name, f.user, f.groups...)
		if err != nil {
			return err
		}
		args := append(f.args, "--kubeconfig="+kubeconfig)
		if f.secured {
			if f.port, err = s.ports.free(); err != nil {
				return err
			}
			args = append(args, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
				"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(f.port))
		}
		if f.process, err = s.start(f.name, s.programs.Path(f.name), args); err != nil {
			return err
		}
	}
	for _, f := range followers {
		check := func(ctx context.Context) error { return podsCanRun(ctx, s.client) }
		if f.secured {
			check = healthy(loopbackURL("https", f.port)+"/healthz", nil, nil)
		}
		if err := f.process.waitReady(ctx, check); err != nil {
			return err
		}
	}
	return nil
}

// identity issues a client certificate and writes dir/name.kubeconfig with it.
func (s *supervisor) identity(name, user string, groups ...string) (string, error) {
	pair, err := s.ca.client(name, user, groups...)
	if err != nil {
		return "", err
	}
	file := s.dir.path(name + ".kubeconfig")
	return file, writeKubeconfig(file, s.state.Server, s.ca, pair)
}

func loopbackNames() certutil.AltNames {
	return certutil.AltNames{DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

func loopbackURL(scheme string, port int) string {
	return scheme + "://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// healthy checks that an URL answers 200. Without an authority the certificate is not verified: the controller manager
// and the scheduler sign theirs themselves, and nothing secret is asked of them.
func healthy(url string, caBundle []byte, identity *keyPair) func(context.Context) error {
	config := &rest.Config{Timeout: 5 * time.Second}
	config.CAData, config.Insecure = caBundle, caBundle == nil
	if identity != nil {
		config.CertData, config.KeyData = identity.cert, identity.key
	}
	client, err := rest.HTTPClientFor(config)
	return func(ctx context.Context) error {
		if err != nil {
			return fmt.Errorf("creating client: %w", err)
		}
		return getOK(ctx, client, url)
	}
}

func getOK(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("creating request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
