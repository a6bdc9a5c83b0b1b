// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// floorScorePattern keeps scores to what every consumer reads the same way: no sign, no
// exponent, no leading zeros.
var floorScorePattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,7})(\.[0-9]{1,6})?$`)

// ValidateCachePolicy validates a CachePolicy after defaulting. Whether it is the only one
// of its namespace is for ValidateSolePolicy.
func ValidateCachePolicy(policy *inferencecache.CachePolicy) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateEvictionTTL(&policy.Spec, spec.Child("evictionTTL"))
	errs = append(errs, validateFloorScore(&policy.Spec, spec.Child("routingFloorScore"))...)
	errs = append(errs, validateRequireChain(policy.Spec.Strategy, spec.Child("strategy", "requireChain"))...)
	return errs
}

func validateEvictionTTL(spec *inferencecache.CachePolicySpec, fldPath *field.Path) field.ErrorList {
	if spec.EvictionTTL == nil || spec.EvictionTTL.Duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, spec.EvictionTTL.Duration.String(),
		"must be more than 0; leave it out for the default")}
}

func validateFloorScore(spec *inferencecache.CachePolicySpec, fldPath *field.Path) field.ErrorList {
	if spec.RoutingFloorScore == nil || floorScorePattern.MatchString(*spec.RoutingFloorScore) {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, abbreviated(*spec.RoutingFloorScore),
		`must be a plain decimal number such as "0.1", with at most 8 digits before and 6 after the point`)}
}

func validateRequireChain(strategy *inferencecache.LookupStrategy, fldPath *field.Path) field.ErrorList {
	if strategy == nil || strategy.RequireChain == nil || !*strategy.RequireChain {
		return nil
	}
	if strategy.EnableChainMatching == nil || *strategy.EnableChainMatching {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, true,
		"cannot be met while enableChainMatching is false; set that to true or this to false")}
}
