// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	apiServiceName = "v1alpha1.inferencecache.io"
	readyTimeout   = 2 * time.Minute
	// apiServerGrace is above the time that the API server gives its open requests.
	apiServerGrace = 90 * time.Second
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// StartAPIServer starts the project's API server, with further arguments, on the port that the APIService names. It does
// not wait: WaitAPIServerReady does. After a Stop or Kill the next one finds the data of the one before.
func (c *Cluster) StartAPIServer(extraArgs ...string) error {
	if c.APIServer == nil {
		return errors.New("the cluster was started without the project's manifests")
	}
	if c.apiServer != nil && !c.apiServer.ended() {
		return errors.New("the API server is already running")
	}
	server := program(apiServerEnv, "inferencecache-apiserver")
	if _, err := os.Stat(server); err != nil {
		return fmt.Errorf("the API server's program is missing, build it with `make build`: %w", err)
	}
	log, err := os.OpenFile(c.APIServer.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the API server's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(server, slices.Concat(c.APIServer.Args, extraArgs)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})
	c.apiServer, err = startChild(cmd)
	return err
}

// APIServerPID returns the process id of the API server, 0 if it does not run.
func (c *Cluster) APIServerPID() int {
	if c.apiServer == nil || c.apiServer.ended() {
		return 0
	}
	return c.apiServer.cmd.Process.Pid
}

// KillAPIServer sends a signal and waits until the API server is gone.
func (c *Cluster) KillAPIServer(signal syscall.Signal) error {
	if c.apiServer == nil {
		return errors.New("the API server has not been started")
	}
	if err := c.apiServer.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling the API server: %w", err)
	}
	select {
	case <-c.apiServer.done:
		return nil
	case <-time.After(apiServerGrace):
		return fmt.Errorf("the API server (pid %d) goes on after signal %s", c.apiServer.cmd.Process.Pid, signal)
	}
}

// StopAPIServer asks the API server to stop and waits. Without a running one it does nothing. It fails when the process
// does not stop by itself, and is then killed, or ends with another exit status than 0.
func (c *Cluster) StopAPIServer() error {
	if c.apiServer == nil {
		return nil
	}
	defer func() { c.apiServer = nil }()
	if c.apiServer.ended() {
		return nil
	}
	if err := c.KillAPIServer(syscall.SIGTERM); err != nil {
		return errors.Join(err, c.KillAPIServer(syscall.SIGKILL))
	}
	if c.apiServer.err != nil {
		return fmt.Errorf("stopping the API server: %w\n%s", c.apiServer.err, c.APIServerLogTail())
	}
	return nil
}

// WaitAPIServerReady waits until the API server says that it is ready and kube-apiserver passes requests on to it.
func (c *Cluster) WaitAPIServerReady(ctx context.Context) error {
	if c.apiServer == nil {
		return errors.New("the API server has not been started")
	}
	last := errors.New("not asked yet")
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		if c.apiServer.ended() {
			return false, fmt.Errorf("the API server has ended: %v", c.apiServer.err)
		}
		if last = c.APIServerReady(ctx); last != nil {
			return false, nil
		}
		last = c.aggregated(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server: %w (last: %v)\n%s", err, last, c.APIServerLogTail())
	}
	return nil
}

// APIServerReady asks the API server's /readyz once, directly and without an identity, as a kubelet does.
func (c *Cluster) APIServerReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: c.APIServer.CAFile}, Timeout: 5 * time.Second})
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	defer client.CloseIdleConnections()
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.APIServer.Port)) + "/readyz"
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
		return fmt.Errorf("readyz answers %s", response.Status)
	}
	return nil
}

// aggregated asks for the APIService's condition and then for the group through kube-apiserver, because the condition
// of a server that has been replaced may be that of the one before.
func (c *Cluster) aggregated(ctx context.Context) error {
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	service, err := client.Resource(apiServices).Get(ctx, apiServiceName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading APIService: %w", err)
	}
	conditions, _, err := unstructured.NestedSlice(service.Object, "status", "conditions")
	if err != nil {
		return fmt.Errorf("reading APIService: %w", err)
	}
	available := slices.ContainsFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return fields["type"] == "Available" && fields["status"] == "True"
	})
	if !available {
		return fmt.Errorf("APIService is not available: %v", conditions)
	}
	group := schema.GroupVersionResource{Group: "inferencecache.io", Version: "v1alpha1", Resource: "cachebackends"}
	if _, err := client.Resource(group).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("listing through kube-apiserver: %w", err)
	}
	return nil
}

// APIServerLogTail returns the last lines of the API server's log, for the message of a failed test.
func (c *Cluster) APIServerLogTail() string {
	data, err := os.ReadFile(c.APIServer.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
