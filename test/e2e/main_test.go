// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the API as its users meet it: through kube-apiserver, its aggregator, the API server as a process of
// its own, and etcd.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
	"inferencecache.io/inferencecache/test/cluster"
)

// etcdPrefix is where our keys begin in the etcd that we share with kube-apiserver.
const etcdPrefix = "/registry-inferencecache"

// environment is the cluster that all tests share, and an administrator's clients of it.
type environment struct {
	cluster   *cluster.Cluster
	config    *rest.Config
	inference versioned.Interface
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	etcd      *clientv3.Client
}

// env is set before the first test and not changed any more.
var env *environment

func TestMain(m *testing.M) { os.Exit(runOnCluster(m)) }

func runOnCluster(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	env, err = newEnvironment(ctx, c)
	code := 1
	if err == nil {
		raiseParallelism()
		if code = m.Run(); code != 0 {
			fmt.Fprintf(os.Stderr, "the end of the API server's log:\n%s\n", c.APIServerLogTail())
		}
		err = env.etcd.Close()
	}
	if err = errors.Join(err, c.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// raiseParallelism lets more tests run at a time than there are processors, unless the command line says how many: most of
// the time they wait for the cluster.
func raiseParallelism() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
}

// newEnvironment starts the API server on the cluster's own etcd, where tests can reach what it has stored. The embedded
// one opens itself to its own process only.
func newEnvironment(ctx context.Context, c *cluster.Cluster) (*environment, error) {
	e := &environment{cluster: c, config: c.RESTConfig()}
	e.config.QPS = -1
	e.config.WarningHandlerWithContext = rest.NoWarnings{}
	var err error
	if e.inference, err = versioned.NewForConfig(e.config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if e.kube, err = kubernetes.NewForConfig(e.config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if e.dynamic, err = dynamic.NewForConfig(e.config); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	store, err := findStore(ctx, e.kube)
	if err != nil {
		return nil, err
	}
	if e.etcd, err = store.client(); err != nil {
		return nil, err
	}
	err = c.StartAPIServer("--etcd-servers="+store.url, "--etcd-prefix="+etcdPrefix,
		"--etcd-cafile="+store.tls.TrustedCAFile, "--etcd-certfile="+store.tls.CertFile, "--etcd-keyfile="+store.tls.KeyFile)
	if err == nil {
		err = c.WaitAPIServerReady(ctx)
	}
	if err == nil {
		err = e.waitPublished(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.etcd.Close())
	}
	return e, nil
}

// waitPublished waits until kube-apiserver has our schemas too. It fetches them some seconds after a server has become
// available; until then kubectl checks manifests itself instead of asking the server to.
func (e *environment) waitPublished(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		paths, err := e.kube.Discovery().OpenAPIV3().Paths()
		if err != nil {
			return false, err
		}
		_, published := paths["apis/"+v1alpha1.APIVersion.String()]
		return published, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the schemas: %w", err)
	}
	return nil
}

// store says how to connect to an etcd.
type store struct {
	url string
	tls transport.TLSInfo
}

// findStore asks kube-apiserver how it connects to its own etcd.
func findStore(ctx context.Context, client kubernetes.Interface) (*store, error) {
	data, err := client.CoreV1().RESTClient().Get().AbsPath("/flagz").
		SetHeader("Accept", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for its flags: %w", err)
	}
	var answer struct {
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("reading kube-apiserver's flags: %w", err)
	}
	flags := answer.Flags
	found := &store{
		url: strings.Trim(flags["etcd-servers"], "[]"),
		tls: transport.TLSInfo{TrustedCAFile: flags["etcd-cafile"], CertFile: flags["etcd-certfile"], KeyFile: flags["etcd-keyfile"]},
	}
	if found.url == "" || found.tls.CertFile == "" {
		return nil, fmt.Errorf("kube-apiserver does not tell where its etcd is: %q", data)
	}
	return found, nil
}

func (s *store) client() (*clientv3.Client, error) {
	config, err := s.tls.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading etcd's certificates: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.url}, TLS: config, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return client, nil
}
