// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

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

// etcdServer is an etcd that a test may break.
type etcdServer struct {
	url, log string
	args     []string
	cmd      *exec.Cmd
}

// startEtcd starts an empty etcd. It is stopped with the test, after the API server, or when this process ends in any
// other way.
func startEtcd(t *testing.T) *etcdServer {
	t.Helper()
	dir := t.TempDir()
	url := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	peer := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	e := &etcdServer{
		url: url, log: filepath.Join(dir, "etcd.log"),
		args: []string{
			"--name=test", "--data-dir=" + filepath.Join(dir, "data"), "--log-level=warn", "--unsafe-no-fsync",
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=test=" + peer,
		},
	}
	t.Cleanup(e.kill)
	e.start(t)
	t.Cleanup(func() { stopServer(t) })
	return e
}

// flags make the API server use this etcd.
func (e *etcdServer) flags() []string { return []string{"--etcd-servers=" + e.url} }

// start starts etcd, the first time or again, and waits until it serves.
func (e *etcdServer) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command(env.Programs["etcd"], e.args...)
	e.cmd.Stdout, e.cmd.Stderr = log, log
	if err := cluster.StartProcess(e.cmd); err != nil {
		t.Fatalf("%v (`make cluster-programs` builds it)", err)
	}
	eventually(t, "etcd serves", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/health", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
			return fmt.Errorf("got %d %s (error %v)", response.StatusCode, body, err)
		}
		return nil
	})
}

// signal sends a signal to etcd.
func (e *etcdServer) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := e.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// kill ends etcd, if it runs, whatever state it is in.
func (e *etcdServer) kill() {
	if e.cmd == nil || e.cmd.Process == nil {
		return
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait() // it tells of the signal
	e.cmd = nil
}
