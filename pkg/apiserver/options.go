// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is the aggregated API server of inferencecache.io.
package apiserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/apiserver/etcd"
)

const (
	// defaultEtcdPrefix is where the server's keys begin. The storage adds the API group.
	defaultEtcdPrefix = "/registry"
	// defaultDataDir holds the embedded etcd.
	defaultDataDir = "/var/lib/inferencecache"
	// maxRequestBodyBytes is more than an object of ours with all its annotations. Reading
	// numbers takes longer than their digits are many, so bodies are not to be large.
	maxRequestBodyBytes = 768 << 10
	// defaultNamespace is the namespace that the server runs in.
	defaultNamespace = "inference-cache-system"
	// watchTerminationGrace is the most that open watches may take to end at a stop. They
	// end at once unless there are thousands. Without it a stop would wait a minute for
	// watches that do not end by themselves, and with a single server nobody answers then.
	watchTerminationGrace = 10 * time.Second
)

// Options is what an operator chooses. The flags of the embedded options are those of
// every API server that is built on k8s.io/apiserver.
type Options struct {
	Recommended *genericoptions.RecommendedOptions
	ServerRun   *genericoptions.ServerRunOptions

	// DataDir is the directory of the embedded etcd, which is used when no etcd servers
	// are named.
	DataDir string
	// EtcdQuotaBytes is the size of the embedded etcd's database above which it refuses
	// writes.
	EtcdQuotaBytes int64
	// Webhook says how the Pod webhook is served.
	Webhook WebhookOptions
	// CacheServer says where CacheIndex comes from.
	CacheServer CacheServerOptions
	// Namespace is the namespace of the server itself, in which it keeps the identity of
	// its store.
	Namespace string
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	codec := Codecs.LegacyCodec(v1alpha1.APIVersion)
	o := &Options{
		Recommended:    genericoptions.NewRecommendedOptions(defaultEtcdPrefix, codec),
		ServerRun:      genericoptions.NewServerRunOptions(),
		DataDir:        defaultDataDir,
		EtcdQuotaBytes: etcd.DefaultQuotaBytes,
		Webhook:        newWebhookOptions(),
		CacheServer:    newCacheServerOptions(),
		Namespace:      defaultNamespace,
	}
	o.Recommended.Etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(
		v1alpha1.APIVersion, schema.GroupKind{Group: v1alpha1.GroupName})
	// The secure port of a container that is not root.
	o.Recommended.SecureServing.BindPort = 6443
	o.Recommended.Features.EnableProfiling = false
	o.ServerRun.ShutdownWatchTerminationGracePeriod = watchTerminationGrace
	o.ServerRun.MaxRequestBodyBytes = maxRequestBodyBytes
	enforceQuota(o.Recommended)
	return o
}

// AddFlags adds all flags to the set.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.ServerRun.AddUniversalFlags(flags)
	o.Recommended.AddFlags(flags)
	flags.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"Directory of the embedded etcd, which is used when --etcd-servers is not given. One process at a time.")
	flags.Int64Var(&o.EtcdQuotaBytes, "etcd-quota-bytes", o.EtcdQuotaBytes,
		"Size of the embedded etcd's database, in bytes, above which it refuses writes.")
	o.Webhook.addFlags(flags)
	o.CacheServer.addFlags(flags)
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"Namespace of this server, in which it keeps the identity of its store.")
}

// Embedded says whether the server runs its own etcd.
func (o *Options) Embedded() bool {
	return len(o.Recommended.Etcd.StorageConfig.Transport.ServerList) == 0
}

// Validate checks the options. An embedded etcd has no servers to name.
func (o *Options) Validate() error {
	var errs []error
	recommended := *o.Recommended
	if o.Embedded() {
		recommended.Etcd = nil
		if o.DataDir == "" {
			errs = append(errs, fmt.Errorf("--data-dir must be given when --etcd-servers is not"))
		}
		if o.EtcdQuotaBytes <= 0 {
			errs = append(errs, fmt.Errorf("--etcd-quota-bytes must be above 0, not %d", o.EtcdQuotaBytes))
		}
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace must be given"))
	}
	if len(o.Recommended.Etcd.EtcdServersOverrides) > 0 {
		// The guard of the store's identity looks at one store.
		errs = append(errs, errors.New("--etcd-servers-overrides is not supported: all resources are in one store"))
	}
	if mediaType := o.Recommended.Etcd.DefaultStorageMediaType; mediaType != runtime.ContentTypeJSON {
		errs = append(errs, fmt.Errorf("--storage-media-type must be %s, not %s", runtime.ContentTypeJSON, mediaType))
	}
	errs = append(errs, o.Webhook.validate(o.Recommended.SecureServing.BindPort)...)
	errs = append(errs, o.CacheServer.validate()...)
	errs = append(errs, recommended.Validate()...)
	errs = append(errs, o.ServerRun.Validate()...)
	return utilerrors.NewAggregate(errs)
}

// RunAlone takes away everything that needs a Kubernetes cluster around the server: the
// delegation of authentication and authorization, the cluster's admission and flow control,
// and the guard of the store's identity. It exists for tests and has no flag.
func (o *Options) RunAlone() {
	o.Recommended.Authentication = nil
	o.Recommended.Authorization = nil
	o.Recommended.CoreAPI = nil
	o.Recommended.Admission = nil
	o.Recommended.Features.EnablePriorityAndFairness = false
}

func (o *Options) alone() bool {
	return o.Recommended.CoreAPI == nil
}
