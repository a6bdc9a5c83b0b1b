// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotageneric "k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// enforceQuota makes object-count quotas such as count/cachebackends.inferencecache.io hold
// for our kinds. The cluster's quota controller counts them like any others, but refusing
// a create is the part of the server that stores the object.
func enforceQuota(o *genericoptions.RecommendedOptions) {
	resourcequota.Register(o.Admission.Plugins)
	o.Admission.RecommendedPluginOrder = append(o.Admission.RecommendedPluginOrder, resourcequota.PluginName)
	o.ExtraAdmissionInitializers = func(*genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		return []admission.PluginInitializer{quotaInitializer{}}, nil
	}
}

// quotaInitializer gives the quota plugin its configuration. It is empty: without an
// evaluator for a resource the plugin counts objects, and we have nothing else to count.
type quotaInitializer struct{}

func (quotaInitializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(quotageneric.NewConfiguration(nil, nil))
	}
}
