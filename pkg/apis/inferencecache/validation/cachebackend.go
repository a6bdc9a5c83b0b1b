// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation holds the rules of the API that the tags on the served types cannot
// express, as pure functions from objects to field errors. What a tag says (required,
// enums, bounds) is checked by generated code and is not repeated here; a rule whose input
// fails such a check stays silent, so that one mistake is one error.
package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// rule is one rule on the spec of a CacheBackend.
type rule func(c *candidate, spec *field.Path) field.ErrorList

// cacheBackendRules are the rules on the spec of a CacheBackend, in the order in which
// their errors are reported.
var cacheBackendRules = []rule{
	validatePair,
	validateBinding,
	validateLMCacheType,
	validateHostMemory,
	validateHiCachePresence,
	validateHiCacheCapacity,
	validateHiCacheRatio,
	validateHiCacheSelector,
	validateHiCacheIntegration,
	validateHiCacheAutoscaling,
	validateEndpointPresence,
	validateEndpointShape,
	validateEndpointNamespace,
	validateProviderBlocks,
	validateCommand,
	validateResources,
	validateMaxReplicas,
	validateReplicaBand,
	validateFloor,
	validateAutoscalingTarget,
	validateSingleton,
	validateEventsOnly,
	validateRole,
	validateEngineHostNetwork,
	validateReservedArgs,
	validateReservedEnv,
	validateOverrideEnv,
}

// ValidateCacheBackend validates a CacheBackend after defaulting.
func ValidateCacheBackend(cb *inferencecache.CacheBackend) field.ErrorList {
	errs := validateKernelCheck(cb.Annotations, field.NewPath("metadata", "annotations"))
	c := newCandidate(cb)
	spec := field.NewPath("spec")
	for _, validate := range cacheBackendRules {
		errs = append(errs, validate(c, spec)...)
	}
	return errs
}
