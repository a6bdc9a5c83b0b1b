// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cacheindex tests CacheIndex as its users meet it: through kube-apiserver, from two replicas of the API server on one
// etcd, with a cache server that works or does not. The tests share all of these, and so run one after the other.
package cacheindex

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
	"inferencecache.io/inferencecache/test/cacheserver"
	"inferencecache.io/inferencecache/test/cluster"
)

const (
	// patience bounds every wait. It is far above what anything needs, for machines that are busy with other things too.
	patience = 2 * time.Minute
	interval = 20 * time.Millisecond

	systemNamespace = "inference-cache-system"
	serviceAccount  = "inference-cache-apiserver"
	groupPath       = "/apis/inferencecache.io/v1alpha1"
	indexPath       = groupPath + "/cacheindices"
)

// environment is what all tests share.
type environment struct {
	cluster  *cluster.Cluster
	server   *cacheserver.Server
	replicas []*replica
	balancer *balancer

	config    *rest.Config
	kube      kubernetes.Interface
	inference versioned.Interface
	// dir is where the token is, and the logs of the replicas.
	dir string
}

// env is set before the first test and not changed any more.
var env *environment

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Nodes: 1}, func(ctx context.Context, c *cluster.Cluster) (func(bool) error, error) {
		env = &environment{cluster: c}
		return env.stop, env.start(ctx)
	}))
}

func (e *environment) start(ctx context.Context) (err error) {
	if e.dir, err = os.MkdirTemp("", "cacheindex-"); err != nil {
		return err
	}
	e.config = e.cluster.RESTConfig()
	e.config.QPS = -1
	e.config.WarningHandlerWithContext = rest.NoWarnings{}
	if e.kube, err = kubernetes.NewForConfig(e.config); err != nil {
		return err
	}
	if e.inference, err = versioned.NewForConfig(e.config); err != nil {
		return err
	}
	e.server, err = cacheserver.New(cacheserver.Options{
		Reviews:      e.kube.AuthenticationV1().TokenReviews(),
		AllowedUsers: []string{"system:serviceaccount:" + systemNamespace + ":" + serviceAccount},
	})
	if err != nil {
		return err
	}
	if err := e.writeToken(ctx, cacheserver.ControllerAudience); err != nil {
		return err
	}
	store, err := e.cluster.Store(ctx)
	if err != nil {
		return err
	}
	flags, err := e.cluster.KubeAPIServerFlags(ctx)
	if err != nil {
		return err
	}
	for i := range 2 {
		r, err := newReplica(ctx, i, store)
		if err != nil {
			return err
		}
		e.replicas = append(e.replicas, r)
	}
	if e.balancer, err = startBalancer(e.cluster.APIServer, flags, e.replicas); err != nil {
		return err
	}
	return e.waitServed(ctx)
}

func (e *environment) stop(failed bool) error {
	var errs []error
	for _, r := range e.replicas {
		if failed {
			fmt.Fprintf(os.Stderr, "the end of a replica's log:\n%s\n", r.APIServerLogTail())
		}
		errs = append(errs, r.StopAPIServer())
	}
	if e.balancer != nil {
		errs = append(errs, e.balancer.Close())
	}
	if e.server != nil {
		errs = append(errs, e.server.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

func (e *environment) tokenFile() string { return filepath.Join(e.dir, "token") }

// writeToken gives the replicas a token of their service account.
func (e *environment) writeToken(ctx context.Context, audience string) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	answer, err := e.kube.CoreV1().ServiceAccounts(systemNamespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token: %w", err)
	}
	return os.WriteFile(e.tokenFile(), []byte(answer.Status.Token+"\n"), 0o600)
}

// waitServed waits until kube-apiserver passes requests on, and has our schemas for kubectl.
func (e *environment) waitServed(ctx context.Context) error {
	last := errors.New("not asked yet")
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		paths, err := e.kube.Discovery().OpenAPIV3().Paths()
		if _, published := paths[strings.TrimPrefix(groupPath, "/")]; err == nil && !published {
			err = errors.New("the schemas are not published")
		}
		if err == nil {
			_, err = e.inference.InferencecacheV1alpha1().CacheIndices().Get(ctx, "cluster-default", metav1.GetOptions{})
		}
		last = err
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the API: %w (last: %v)", err, last)
	}
	return nil
}
