// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=inferencecache.io/inferencecache/pkg/apis/inferencecache
// +k8s:defaulter-gen=TypeMeta
// +k8s:validation-gen=TypesWithField=TypeMeta
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.inferencecache.inferencecache.pkg.apis.inferencecache.v1alpha1
// +groupName=inferencecache.io

// Package v1alpha1 is the served version of the inferencecache.io API.
package v1alpha1
