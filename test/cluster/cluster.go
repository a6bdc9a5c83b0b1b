// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster gives tests a real Kubernetes control plane with the project's API server behind it.
package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// launcherEnv names another launcher than the one `make cluster-programs` builds.
	launcherEnv = "INFERENCECACHE_CLUSTER_BIN"
	// apiServerEnv names another API server than the one `make build` builds.
	apiServerEnv = "INFERENCECACHE_APISERVER_BIN"
	// keepEnv, when it is not empty, keeps the folder of each cluster with its logs.
	keepEnv = "INFERENCECACHE_CLUSTER_KEEP"
	// stopTimeout covers the launcher's own patience with each of its programs.
	stopTimeout = time.Minute
)

// Options say which cluster a test wants.
type Options struct {
	// Nodes is the number of simulated nodes, 3 if it is 0.
	Nodes int
	// WithoutManifests leaves out everything of the project: a bare Kubernetes.
	WithoutManifests bool
	// Overlay is the kustomization to apply, the repository's artifacts/overlays/local if it is empty.
	Overlay string
	// Log gets what the launcher reports, standard error if it is nil.
	Log io.Writer
}

// Info is the part of the launcher's cluster.json that tests need.
type Info struct {
	Dir        string            `json:"dir"`
	Server     string            `json:"server"`
	Kubeconfig string            `json:"kubeconfig"`
	Programs   map[string]string `json:"programs"`
	APIServer  *Process          `json:"apiServer"`
	Controller *Process          `json:"controller"`
}

// Process is what is needed to start one of the project's processes: arguments that connect it to the cluster, a
// kubeconfig with the identity of its service account, and the port of its /readyz.
type Process struct {
	Args        []string `json:"args"`
	Kubeconfig  string   `json:"kubeconfig"`
	Port        int      `json:"port"`
	WebhookPort int      `json:"webhookPort"`
	MetricsPort int      `json:"metricsPort"`
	CAFile      string   `json:"caFile"`
	CertFile    string   `json:"certFile"`
	KeyFile     string   `json:"keyFile"`
	DataDir     string   `json:"dataDir"`
	Log         string   `json:"log"`
}

// Cluster is a running cluster. Its methods are not safe for use by several goroutines, except Kubectl and RESTConfig.
type Cluster struct {
	Info

	options   Options
	launcher  *child
	stdin     io.Closer
	config    *rest.Config
	apiServer *child
}

// Start starts a cluster of its own, ready for pods. It lives until Stop, or until this process ends in any way.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Nodes == 0 {
		options.Nodes = 3
	}
	if options.Overlay == "" {
		options.Overlay = filepath.Join(Root(), "artifacts", "overlays", "local")
	}
	if options.Log == nil {
		options.Log = os.Stderr
	}
	launcher := program(launcherEnv, "cluster")
	if _, err := os.Stat(launcher); err != nil {
		return nil, fmt.Errorf("the local cluster's launcher is missing, build it with `make cluster-programs`: %w", err)
	}
	dir, err := os.MkdirTemp("", "inferencecache-cluster-")
	if err != nil {
		return nil, fmt.Errorf("creating the cluster's folder: %w", err)
	}
	c := &Cluster{options: options}
	if err := c.launch(ctx, launcher, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the cluster: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Cluster) launch(ctx context.Context, launcher, dir string) error {
	args := []string{"run", "--until-stdin-closes", "--dir", dir, "--overlay", c.options.Overlay, "--nodes", strconv.Itoa(c.options.Nodes)}
	if !c.options.WithoutManifests {
		args = append(args, "--prepare")
	}
	if os.Getenv(keepEnv) == "" {
		args = append(args, "--remove-dir")
	}
	cmd := exec.Command(launcher, args...)
	var complaints bytes.Buffer
	cmd.Stderr = io.MultiWriter(c.options.Log, &complaints)
	// A process group of its own: on Ctrl-C it is told to stop through its standard input, as in every other case.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("connecting standard input: %w", err)
	}
	// Not cmd.StdoutPipe: its reader may be closed before the line has been read when the launcher ends early.
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("connecting standard output: %w", err)
	}
	defer stdout.Close()
	cmd.Stdout = stdoutWriter
	c.stdin = stdin
	c.launcher, err = startChild(cmd)
	stdoutWriter.Close()
	if err != nil {
		return err
	}

	stop := context.AfterFunc(ctx, func() { stdin.Close() })
	defer stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil { // The launcher has ended, or is about to.
		<-c.launcher.done
		c.launcher = nil
		return errors.Join(ctx.Err(), errors.New(strings.TrimSpace(complaints.String())))
	}
	if err := json.Unmarshal(line, &c.Info); err != nil {
		return fmt.Errorf("decoding the launcher's report: %w", err)
	}
	c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	return nil
}

// Stop stops the API server and the cluster, and returns when all processes are gone.
func (c *Cluster) Stop() error {
	err := c.StopAPIServer()
	if c.launcher == nil {
		return err
	}
	c.stdin.Close() // It fails when a cancelled start has closed it before.
	select {
	case <-c.launcher.done:
		if c.launcher.err != nil {
			err = errors.Join(err, fmt.Errorf("stopping the cluster: %w", c.launcher.err))
		}
	case <-time.After(stopTimeout):
		_ = c.launcher.cmd.Process.Kill()
		<-c.launcher.done
		err = errors.Join(err, errors.New("the cluster did not stop in time"))
	}
	c.launcher = nil
	return err
}

// RESTConfig returns a configuration with the rights of an administrator, for its caller to change.
func (c *Cluster) RESTConfig() *rest.Config {
	return rest.CopyConfig(c.config)
}

// Kubectl runs kubectl as an administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	return c.KubectlInput(ctx, nil, args...)
}

// KubectlInput is Kubectl with a standard input, for `-f -`.
func (c *Cluster) KubectlInput(ctx context.Context, stdin io.Reader, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, c.Programs["kubectl"], args...)
	// A cache of its own: another cluster may have had the same address before and served other resources.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+filepath.Join(c.Dir, "kubectl"))
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String(), complaints.String(), fmt.Errorf("running kubectl %v: %w: %s", args, err, complaints.String())
	}
	return out.String(), complaints.String(), nil
}

// program returns the path of one of the project's programs.
func program(env, name string) string {
	if path := os.Getenv(env); path != "" {
		return path
	}
	return filepath.Join(Root(), "_output", "bin", name)
}

// Root returns the repository's top folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
