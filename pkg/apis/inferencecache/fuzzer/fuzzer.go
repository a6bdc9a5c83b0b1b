// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fuzzer fills the internal types at random, as they look after defaulting.
package fuzzer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// Funcs are the functions that fill what must not be left to chance: fields with a
// default, which would come back filled in, and values with more than one spelling.
func Funcs(runtimeserializer.CodecFactory) []any {
	return []any{
		fillBackendSpec,
		fillPolicySpec,
		fillTenantSpec,
		func(source *corev1.FileKeySelector, c randfill.Continue) {
			c.FillNoCustom(source)
			setIfNil(&source.Optional, false)
		},
		func(duration *metav1.Duration, c randfill.Continue) {
			duration.Duration = randomDuration(c)
		},
	}
}

func fillBackendSpec(spec *inferencecache.CacheBackendSpec, c randfill.Continue) {
	c.FillNoCustom(spec)
	setIfEmpty(&spec.Type, inferencecache.CacheTypeLMCache)
	setIfEmpty(&spec.DeploymentKind, inferencecache.DeploymentKindDeployment)
	setIfNil(&spec.Replicas, 1)
	if spec.Observation == nil {
		spec.Observation = &inferencecache.ObservationSpec{}
	}
	setIfNil(&spec.Observation.FirstEventTimeout, metav1.Duration{Duration: randomDuration(c)})
	if spec.Integration == nil {
		spec.Integration = &inferencecache.IntegrationSpec{}
	}
	setIfEmpty(&spec.Integration.Mode, inferencecache.IntegrationModeOffload)
	setIfEmpty(&spec.Integration.Role, inferencecache.IntegrationRoleReadWrite)
	setIfNil(&spec.Integration.FailOpen, true)
}

func fillPolicySpec(spec *inferencecache.CachePolicySpec, c randfill.Continue) {
	c.FillNoCustom(spec)
	setIfEmpty(&spec.Eviction, inferencecache.EvictionPolicyLRU)
	setIfNil(&spec.MinimumMatchedTokens, 64)
	setIfNil(&spec.RoutingFloorScore, "0.1")
	setIfNil(&spec.AffinityRouting, inferencecache.AffinityRoutingEnabled)
	if strategy := spec.Strategy; strategy != nil {
		setIfNil(&strategy.EnableChainMatching, true)
		setIfNil(&strategy.RequireChain, false)
		setIfNil(&strategy.EnableTenantHot, true)
	}
}

func fillTenantSpec(spec *inferencecache.CacheTenantSpec, c randfill.Continue) {
	c.FillNoCustom(spec)
	setIfEmpty(&spec.IsolationMode, inferencecache.IsolationModeFairness)
	spec.Crypto = nil
	if c.Bool() {
		spec.Crypto = map[string]runtime.RawExtension{}
	}
}

// randomDuration stays where every duration has a string that parses.
func randomDuration(c randfill.Continue) time.Duration {
	return time.Duration(c.Int63n(int64(1000 * time.Hour)))
}

func setIfEmpty[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
