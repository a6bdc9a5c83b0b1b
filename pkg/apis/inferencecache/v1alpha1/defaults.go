// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

func init() {
	localSchemeBuilder.Register(addDefaultingFuncs)
}

func addDefaultingFuncs(scheme *runtime.Scheme) error {
	return RegisterDefaults(scheme)
}

// SetDefaults_CacheBackendSpec makes the objects exist whose members have defaults.
// Constant defaults are markers on the fields; the floor of the autoscaler depends on
// stored values and belongs to the registry.
func SetDefaults_CacheBackendSpec(spec *CacheBackendSpec) {
	if spec.Observation == nil {
		spec.Observation = &ObservationSpec{}
	}
	if spec.Integration == nil {
		spec.Integration = &IntegrationSpec{}
	}
}
