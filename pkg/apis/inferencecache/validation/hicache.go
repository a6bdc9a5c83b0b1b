// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// ratioPattern keeps ratios to decimal numbers. What strconv reads beyond them, such as
// hexadecimal numbers and names of infinity, the engine's command line does not.
var ratioPattern = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// capacityModes is the bad value when a HiCache has both.
type capacityModes struct {
	SizeGB int32  `json:"sizeGB"`
	Ratio  string `json:"ratio"`
}

func validateHiCachePresence(c *candidate, spec *field.Path) field.ErrorList {
	present := c.spec.HiCache != nil
	switch {
	case c.cacheType == v1alpha1.CacheTypeLMCache && present:
		return field.ErrorList{field.Forbidden(spec.Child("hiCache"),
			"configures the type SGLangHiCache, and the type is LMCache; remove it or change the type")}
	case c.hiCache() && !present:
		return field.ErrorList{field.Required(spec.Child("hiCache"),
			"the type SGLangHiCache needs a capacity; set sizeGB or ratio in it")}
	}
	return nil
}

// validateHiCacheCapacity asks for exactly one of the two ways to give a capacity.
func validateHiCacheCapacity(c *candidate, spec *field.Path) field.ErrorList {
	if !c.hiCache() || c.spec.HiCache == nil {
		return nil
	}
	sizeGB, ratio := c.spec.HiCache.SizeGB, c.spec.HiCache.Ratio
	switch {
	case sizeGB == nil && ratio == "":
		return field.ErrorList{field.Required(spec.Child("hiCache"), "set one of sizeGB and ratio")}
	case sizeGB != nil && ratio != "":
		both := excerpt{
			printed: capacityModes{SizeGB: *sizeGB, Ratio: brief(ratio)},
			whole:   capacityModes{SizeGB: *sizeGB, Ratio: ratio},
		}
		return field.ErrorList{field.Invalid(spec.Child("hiCache"), both,
			"sizeGB and ratio exclude each other; remove one of them")}
	}
	return nil
}

func validateHiCacheRatio(c *candidate, spec *field.Path) field.ErrorList {
	if !c.hiCache() || c.spec.HiCache == nil || c.spec.HiCache.Ratio == "" || validRatio(c.spec.HiCache.Ratio) {
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("hiCache", "ratio"), abbreviated(c.spec.HiCache.Ratio),
		`must be a finite decimal number above 0, such as "2.0"`)}
}

func validRatio(text string) bool {
	if !ratioPattern.MatchString(text) {
		return false
	}
	// A number too large is an error here, one too small is 0.
	ratio, err := strconv.ParseFloat(text, 64)
	return err == nil && ratio > 0 && !math.IsInf(ratio, 0)
}

// validateHiCacheSelector asks for a selector, since there is nothing but engine pods that
// a HiCache could act on.
func validateHiCacheSelector(c *candidate, spec *field.Path) field.ErrorList {
	if !c.hiCache() || c.spec.EngineSelector != nil && len(c.spec.EngineSelector.MatchLabels) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(spec.Child("engineSelector", "matchLabels"),
		"the type SGLangHiCache acts on engine pods alone; set labels that select them")}
}

// validateHiCacheIntegration refuses settings of the integration that HiCache has no
// counterpart for.
func validateHiCacheIntegration(c *candidate, spec *field.Path) field.ErrorList {
	if !c.hiCache() {
		return nil
	}
	var errs field.ErrorList
	integration := spec.Child("integration")
	if c.mode != "" && c.mode != v1alpha1.IntegrationModeOffload {
		errs = append(errs, onlyWithHiCache(integration.Child("mode"), string(c.mode), v1alpha1.IntegrationModeOffload))
	}
	if c.role != "" && c.role != v1alpha1.IntegrationRoleReadWrite {
		errs = append(errs, onlyWithHiCache(integration.Child("role"), string(c.role), v1alpha1.IntegrationRoleReadWrite))
	}
	if c.spec.Integration != nil && c.spec.Integration.FailOpen != nil && !*c.spec.Integration.FailOpen {
		errs = append(errs, onlyWithHiCache(integration.Child("failOpen"), false, "true"))
	}
	return errs
}

func onlyWithHiCache[T ~string](fldPath *field.Path, value any, supported T) *field.Error {
	err := field.NotSupported(fldPath, value, []T{supported})
	err.Detail = fmt.Sprintf("the type SGLangHiCache supports only %s; use that or leave it out", supported)
	return err
}

func validateHiCacheAutoscaling(c *candidate, spec *field.Path) field.ErrorList {
	if !c.hiCache() || c.spec.Autoscaling == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(spec.Child("autoscaling"),
		"there is nothing to scale with the type SGLangHiCache; remove it")}
}
