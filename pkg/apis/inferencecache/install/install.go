// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install registers every version of the inferencecache.io API.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Install registers the internal and the served types with the scheme.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(inferencecache.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.Install(scheme))
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.APIVersion))
}
