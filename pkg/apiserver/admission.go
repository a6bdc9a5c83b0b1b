// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// admissionResync is how often informers of admission look at everything again.
const admissionResync = 10 * time.Minute

// enforceQuota makes object-count quotas such as count/cachebackends.inferencecache.io hold
// for our kinds. The cluster's quota controller counts them like any others, but refusing
// a create is the part of the server that stores the object.
func enforceQuota(o *genericoptions.RecommendedOptions) {
	resourcequota.Register(o.Admission.Plugins)
	o.Admission.RecommendedPluginOrder = append(o.Admission.RecommendedPluginOrder, resourcequota.PluginName)
}

// quotaInitializer gives the quota plugin its configuration. It is empty: without an
// evaluator for a resource the plugin counts objects, and we have nothing else to count.
type quotaInitializer struct{}

func (quotaInitializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(quotageneric.NewConfiguration(nil, nil))
	}
}

// applyAdmission sets up the cluster's admission with informers of its own, and returns
// them. A policy may have parameters of any kind, for which an informer is added while the
// server runs. One of a kind that the server may not read never syncs; among the informers
// that readiness looks at, it would take the server away because of a policy that need not
// even concern our kinds.
func applyAdmission(o *genericoptions.RecommendedOptions, generic *genericapiserver.RecommendedConfig) (informers.SharedInformerFactory, error) {
	client, err := kubernetes.NewForConfig(generic.ClientConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client for admission: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(generic.ClientConfig)
	if err != nil {
		return nil, fmt.Errorf("making a dynamic client for admission: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, admissionResync)
	err = o.Admission.ApplyTo(&generic.Config, factory, client, dynamicClient, o.FeatureGate, generic.EffectiveVersion, quotaInitializer{})
	if err != nil {
		return nil, fmt.Errorf("setting up admission: %w", err)
	}
	return factory, nil
}

// startAdmission starts the informers with the server. The hook ends, and readiness with it
// begins, when those have synced that every server needs.
func startAdmission(server *genericapiserver.GenericAPIServer, factory informers.SharedInformerFactory) error {
	return server.AddPostStartHook("admission-informers", func(ctx genericapiserver.PostStartHookContext) error {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		return nil
	})
}
