// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/controllers/cachebackend"
	"inferencecache.io/inferencecache/pkg/controllers/enginepod"
	"inferencecache.io/inferencecache/pkg/controllers/participation"
	"inferencecache.io/inferencecache/pkg/controllers/policy"
)

// The lock is in the namespace that the manifests give the controller the right to.
const (
	lockName      = "inference-cache-controller-leader-lock"
	lockNamespace = "inference-cache-system"
)

// shutdownTimeout is for passes that are under way. It is below the grace period of the pod.
const shutdownTimeout = 8 * time.Second

// passTimeout keeps an API server that takes requests and never answers from holding up
// workers for ever. It is far above what a pass takes, a probe that times out included.
const passTimeout = time.Minute

// syncTimeout is how long a start waits for the API, ours included, before the process ends
// to be started again. An aggregated API may take minutes to come back, and back-off would add
// to that.
const syncTimeout = 10 * time.Minute

type options struct {
	metricsAddress string
	metricsSecure  bool
	enableHTTP2    bool
	probeAddress   string
	leaderElect    bool
	cacheServer    cacheServerOptions
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "Address that metrics are served on; 0 turns them off.")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", false, "Serve metrics over HTTPS, with a certificate made at the start.")
	flags.BoolVar(&o.enableHTTP2, "enable-http2", false, "Allow HTTP/2 where metrics are served over HTTPS.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address that /healthz and /readyz are served on.")
	flags.BoolVar(&o.leaderElect, "leader-elect", false, "Work only while holding the lease "+lockNamespace+"/"+lockName+".")
	o.cacheServer.addFlags(flags)
}

func (o *options) metrics() metricsserver.Options {
	metrics := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if !o.enableHTTP2 {
		metrics.TLSOpts = []func(*tls.Config){func(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }}
	}
	return metrics
}

func newManager(config *rest.Config, o options) (ctrl.Manager, error) {
	clients, err := o.cacheServer.clients()
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        newScheme(),
		Cache:                         cacheOptions(),
		Controller:                    ctrlconfig.Controller{ReconciliationTimeout: passTimeout, CacheSyncTimeout: syncTimeout},
		Metrics:                       o.metrics(),
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              lockName,
		LeaderElectionNamespace:       lockNamespace,
		LeaderElectionReleaseOnCancel: true, // The process ends as soon as the manager does.
		GracefulShutdownTimeout:       new(shutdownTimeout),
	})
	if err != nil {
		return nil, fmt.Errorf("creating manager: %w", err)
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding health check: %w", err)
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding readiness check: %w", err)
	}
	if err := cachebackend.Add(manager, cachebackend.Options{Prober: clients.prober}); err != nil {
		return nil, fmt.Errorf("adding %s: %w", cachebackend.Name, err)
	}
	if err := enginepod.Add(manager); err != nil {
		return nil, fmt.Errorf("adding %s: %w", enginepod.Name, err)
	}
	if err := participation.Add(manager, clients.snapshot, o.cacheServer.snapshotInterval); err != nil {
		return nil, fmt.Errorf("adding %s: %w", participation.Name, err)
	}
	if err := policy.Add(manager, clients.policy, o.cacheServer.policyInterval); err != nil {
		return nil, fmt.Errorf("adding %s: %w", policy.Name, err)
	}
	return manager, nil
}

// cacheOptions bound what the cache holds of each kind.
func cacheOptions() cache.Options {
	options := cachebackend.CacheOptions()
	maps.Copy(options.ByObject, enginepod.CacheByObject())
	return options
}

// newScheme has our kinds and those that the controllers read or write.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{
		v1alpha1.Install, corev1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme,
	} {
		utilruntime.Must(install(scheme))
	}
	return scheme
}
