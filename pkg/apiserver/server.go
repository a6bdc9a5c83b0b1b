// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/apiserver/etcd"
	"inferencecache.io/inferencecache/pkg/registry/cachebackend"
	"inferencecache.io/inferencecache/pkg/registry/cacheindex"
	"inferencecache.io/inferencecache/pkg/registry/cachepolicy"
	"inferencecache.io/inferencecache/pkg/registry/cachetenant"
	"inferencecache.io/inferencecache/pkg/version"
)

// Server is an API server with the store that it needs.
type Server struct {
	generic *genericapiserver.GenericAPIServer
	// ran is true once the generic server is responsible for what it holds.
	ran    bool
	config *config
	// store is nil when etcd is somebody else's.
	store   *etcd.Server
	webhook *webhook
}

// New starts the embedded etcd, unless another one is named, and makes a server on it.
// ctx bounds the start alone. The caller runs the server or closes it.
func New(ctx context.Context, o *Options) (_ *Server, err error) {
	s := &Server{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if o.Embedded() {
		if s.store, err = etcd.Start(ctx, etcd.Options{DataDir: o.DataDir, QuotaBytes: o.EtcdQuotaBytes}); err != nil {
			return nil, err
		}
		o.Recommended.Etcd.StorageConfig.Transport.ServerList = s.store.Endpoints()
	}
	if s.config, err = newConfig(o); err != nil {
		return nil, err
	}
	if s.generic, err = s.config.generic.Complete().New("inferencecache-apiserver", genericapiserver.NewEmptyDelegate()); err != nil {
		return nil, err
	}
	if s.store != nil {
		s.generic.Handler.NonGoRestfulMux.Handle("/metrics/etcd", etcd.MetricsHandler())
	}
	backends, err := s.installAPI(o)
	if err != nil {
		return nil, err
	}
	s.webhook, err = newWebhook(o.Webhook, s.config, backends)
	if err != nil {
		return nil, err
	}
	if s.config.admissionInformers != nil {
		if err := startAdmission(s.generic, s.config.admissionInformers); err != nil {
			return nil, err
		}
	}
	return s, s.webhook.install(s.generic, o.ServerRun.ShutdownDelayDuration)
}

// installAPI serves the kinds of the group. It returns the live view of the backends.
func (s *Server) installAPI(o *Options) (cachebackend.Live, error) {
	var none cachebackend.Live
	options := s.config.generic.RESTOptionsGetter
	backends, backendStatus, live, err := cachebackend.NewREST(Scheme, options, clock.RealClock{})
	if err != nil {
		return none, fmt.Errorf("making the storage of cachebackends: %w", err)
	}
	policies, policyStatus, err := cachepolicy.NewREST(Scheme, options)
	if err != nil {
		return none, fmt.Errorf("making the storage of cachepolicies: %w", err)
	}
	tenants, tenantStatus, err := cachetenant.NewREST(Scheme, options)
	if err != nil {
		return none, fmt.Errorf("making the storage of cachetenants: %w", err)
	}
	cacheServer, err := o.CacheServer.server()
	if err != nil {
		return none, err
	}

	group := genericapiserver.NewDefaultAPIGroupInfo(v1alpha1.GroupName, Scheme, metav1.ParameterCodec, Codecs)
	group.NegotiatedSerializer = withoutProtobuf{group.NegotiatedSerializer}
	group.VersionedResourcesStorageMap[v1alpha1.APIVersion.Version] = map[string]rest.Storage{
		"cachebackends":        backends,
		"cachebackends/status": backendStatus,
		"cacheindices":         cacheindex.NewREST(cacheServer, o.CacheServer.SnapshotURL, clock.RealClock{}),
		"cachepolicies":        policies,
		"cachepolicies/status": policyStatus,
		"cachetenants":         tenants,
		"cachetenants/status":  tenantStatus,
	}
	if err := s.generic.InstallAPIGroup(&group); err != nil {
		return none, fmt.Errorf("installing group %s: %w", v1alpha1.GroupName, err)
	}
	return live, nil
}

// Run serves until ctx ends. Then the webhook stops first, the API drains, and the store
// closes last. It ends with an error when the store ends by itself.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if s.store != nil {
		go func() {
			select {
			case <-s.store.Done():
				cancel(fmt.Errorf("serving from the embedded etcd: %w", s.store.Err()))
			case <-ctx.Done():
			}
		}()
	}
	s.config.startGuard(ctx)
	s.ran = true

	logger := klog.FromContext(ctx)
	logger.Info("Serving", "group", v1alpha1.GroupName, "version", version.String(), "embeddedEtcd", s.store != nil)
	started := time.Now()
	if err := s.generic.PrepareRun().RunWithContext(ctx); err != nil {
		return err
	}
	logger.Info("Stopped serving", "after", time.Since(started).Round(time.Second))
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// Close releases everything, the store last. It may be called more than once.
func (s *Server) Close() {
	if s.webhook != nil {
		s.webhook.stop()
	}
	if s.generic != nil && !s.ran {
		s.generic.Destroy()
	}
	if s.config != nil {
		s.config.close()
	}
	if s.store != nil {
		s.store.Close()
	}
}
