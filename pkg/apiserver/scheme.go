// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/install"
)

var (
	// Scheme knows every type that the server handles.
	Scheme = runtime.NewScheme()
	// Codecs encodes and decodes the types of Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)
)

func init() {
	install.Install(Scheme)
	// Errors, list options and the like are read and written in the core group's version.
	metav1.AddToGroupVersion(Scheme, schema.GroupVersion{Version: "v1"})
}
