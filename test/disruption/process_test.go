// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
	"inferencecache.io/inferencecache/test/cluster"
)

func freePort(t *testing.T) int {
	t.Helper()
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// etcdServer is an etcd outside of our server, which only holders of a client certificate can use.
type etcdServer struct {
	args []string
	cmd  *exec.Cmd
	log  string
	// flags are how our server is told to use it.
	flags []string
	// health asks it whether it serves.
	health endpoint
}

// startEtcd starts an empty etcd. It is stopped with the test, or when this process ends in any other way.
func startEtcd(t *testing.T) *etcdServer {
	t.Helper()
	ca, dir := newAuthority(t, "etcd-ca"), t.TempDir()
	caFile := writeFile(t, dir, "ca.crt", ca.pem)
	certFile, keyFile := ca.issue(t, "localhost").write(t, dir, "server")
	clientCert, clientKey := ca.issue(t, "inference-cache").write(t, dir, "client")
	url := fmt.Sprintf("https://127.0.0.1:%d", freePort(t))
	peer := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	config := host.RESTConfig()
	config.Host = url
	config.CAFile, config.CertFile, config.KeyFile = caFile, clientCert, clientKey
	config.CAData, config.CertData, config.KeyData = nil, nil, nil
	e := &etcdServer{
		log:    filepath.Join(dir, "etcd.log"),
		health: newEndpoint(t, config),
		flags: []string{
			"--etcd-servers=" + url, "--etcd-cafile=" + caFile, "--etcd-certfile=" + clientCert, "--etcd-keyfile=" + clientKey,
		},
		args: []string{
			"--name=test", "--data-dir=" + filepath.Join(dir, "data"), "--log-level=warn",
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer,
			"--cert-file=" + certFile, "--key-file=" + keyFile, "--trusted-ca-file=" + caFile, "--client-cert-auth",
		},
	}
	t.Cleanup(func() { e.stop(t) })
	e.start(t)
	return e
}

// start starts etcd, the first time or again, and waits until it serves.
func (e *etcdServer) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command(host.Programs["etcd"], e.args...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	if err := cluster.StartProcess(e.cmd); err != nil {
		t.Fatalf("%v (`make cluster-programs` builds it)", err)
	}
	eventually(t, "etcd serves", func(ctx context.Context) error {
		got, err := e.health.do(ctx, http.MethodGet, "/health", "")
		if err == nil && got.code != http.StatusOK {
			err = fmt.Errorf("got %d %s", got.code, got.body)
		}
		return err
	})
}

// stop stops etcd if it runs.
func (e *etcdServer) stop(t *testing.T) {
	t.Helper()
	if e.cmd == nil || e.cmd.Process == nil {
		return
	}
	_ = e.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	_ = e.cmd.Wait()                          // etcd ends with the signal, which Wait takes for an error
	e.cmd = nil
}

// replica is a further API server beside the usual one, on the same store.
type replica struct {
	*cluster.Cluster
}

// startReplica starts another API server and waits until it is ready. It is stopped with the test.
func startReplica(t *testing.T, args ...string) replica {
	t.Helper()
	own := *host.APIServer
	own.Port, own.Log = freePort(t), filepath.Join(t.TempDir(), "replica.log")
	own.Args = append(replacePorts(t, own.Args), fmt.Sprintf("--secure-port=%d", own.Port))
	r := replica{&cluster.Cluster{Info: host.Info}}
	r.APIServer = &own
	if err := r.StartAPIServer(args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.StopAPIServer(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the replica gets ready", func(ctx context.Context) error {
		if r.APIServerPID() == 0 {
			t.Fatalf("the replica has ended:\n%s", r.APIServerLogTail())
		}
		if err := r.APIServerReady(ctx); err != nil {
			return err
		}
		_, err := directClient(t, own.Port).InferencecacheV1alpha1().CacheBackends(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		return err
	})
	return r
}

// replacePorts gives an API server's arguments other ports than those of the usual one.
func replacePorts(t *testing.T, args []string) []string {
	t.Helper()
	args = slices.Clone(args)
	for i, arg := range args {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "--secure-port", "--webhook-port":
			args[i] = fmt.Sprintf("%s=%d", name, freePort(t))
		}
	}
	return args
}

// directClient returns a client of our kinds that does not go through kube-apiserver.
func directClient(t *testing.T, port int) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(directConfig(host.RESTConfig(), port))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// apiServerProgram is the program that the cluster's API server runs.
func apiServerProgram() string {
	if path := os.Getenv("INFERENCECACHE_APISERVER_BIN"); path != "" {
		return path
	}
	return filepath.Join(cluster.Root(), "_output", "bin", "inferencecache-apiserver")
}
