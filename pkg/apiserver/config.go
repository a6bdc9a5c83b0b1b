// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"inferencecache.io/inferencecache/pkg/apiserver/etcd"
	"inferencecache.io/inferencecache/pkg/apiserver/storeidentity"
	generatedopenapi "inferencecache.io/inferencecache/pkg/generated/openapi"
	"inferencecache.io/inferencecache/pkg/version"
)

// config is what the server is made from.
type config struct {
	generic *genericapiserver.RecommendedConfig
	// guard is nil for a server without a cluster around it.
	guard *storeidentity.Guard
	// etcdClient is the guard's connection.
	etcdClient *clientv3.Client
	// admissionInformers are nil for a server without a cluster around it.
	admissionInformers informers.SharedInformerFactory
}

// newConfig turns options into a config. The etcd servers must be known by now.
func newConfig(o *Options) (*config, error) {
	if err := o.Recommended.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	generic := genericapiserver.NewRecommendedConfig(Codecs)
	namer := openapi.NewDefinitionNamer(Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIConfig.Info.Title = "Inference Cache"
	generic.OpenAPIConfig.Info.Version = version.String()
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIV3Config.Info = generic.OpenAPIConfig.Info

	// The effective version must be known before admission is set up.
	if err := o.ServerRun.ApplyTo(&generic.Config); err != nil {
		return nil, err
	}
	recommended := *o.Recommended
	recommended.Admission = nil // set up apart, below
	if err := recommended.ApplyTo(generic); err != nil {
		return nil, err
	}
	// A server that is restarted does not bring etcd back.
	generic.LivezChecks = slices.DeleteFunc(generic.LivezChecks, func(check healthz.HealthChecker) bool {
		return check.Name() == "etcd"
	})

	wrapHandler(generic, preferJSON)
	wrapHandler(generic, refuseHugeQuantities)
	c := &config{generic: generic}
	if o.alone() {
		return c, nil
	}
	generic.Authentication.Authenticator = anonymousHealth{generic.Authentication.Authenticator}
	waitForFrontProxy(generic)
	var err error
	if c.admissionInformers, err = applyAdmission(o.Recommended, generic); err != nil {
		return nil, err
	}
	return c, c.addGuard(o)
}

// addGuard keeps everybody from the store until it is known to be the cluster's.
func (c *config) addGuard(o *Options) error {
	transport := o.Recommended.Etcd.StorageConfig.Transport
	var err error
	c.etcdClient, err = etcd.NewClient(etcd.ClientOptions{
		Endpoints:     transport.ServerList,
		CertFile:      transport.CertFile,
		KeyFile:       transport.KeyFile,
		TrustedCAFile: transport.TrustedCAFile,
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.generic.ClientConfig)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	c.guard = storeidentity.New(storeidentity.Options{
		ConfigMaps: client.CoreV1(),
		KV:         c.etcdClient,
		Prefix:     o.Recommended.Etcd.StorageConfig.Prefix,
		Namespace:  o.Namespace,
	})
	c.generic.AddReadyzChecks(c.guard)
	// Behind authentication and authorization, so that only those who may use the API
	// read what is wrong with the store.
	wrapHandler(c.generic, func(handler http.Handler) http.Handler {
		return storeidentity.WithGuard(handler, c.guard)
	})
	return nil
}

// wrapHandler puts a filter between the generic handler chain and the API.
func wrapHandler(generic *genericapiserver.RecommendedConfig, wrap func(http.Handler) http.Handler) {
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		return build(wrap(handler), config)
	}
}

// close releases what the config holds. The listener of a server that runs is closed by it.
func (c *config) close() {
	if c.generic != nil && c.generic.SecureServing != nil {
		_ = c.generic.SecureServing.Listener.Close()
	}
	if c.etcdClient != nil {
		// Nothing is left to do about a connection that cannot be closed.
		_ = c.etcdClient.Close()
	}
}

// startGuard runs the guard for as long as the server runs.
func (c *config) startGuard(ctx context.Context) {
	if c.guard != nil {
		go c.guard.Run(ctx)
	}
}
