// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/adapters/quantity"
	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// validatePair refuses pairs of runtime and type that no adapter wires. It covers a
// HiCache without SGLang too.
func validatePair(c *candidate, spec *field.Path) field.ErrorList {
	if c.runtime == "" || c.cacheType == "" || c.adapter != nil {
		return nil
	}
	supported := make([]string, 0, len(engine.SupportedPairs()))
	for _, pair := range engine.SupportedPairs() {
		supported = append(supported, pair.String())
	}
	return field.ErrorList{field.Invalid(spec.Child("runtime"), string(c.runtime),
		fmt.Sprintf("cannot be used with the type %s; the supported pairs of runtime and type are %s",
			c.cacheType, strings.Join(supported, ", ")))}
}

// validateBinding refuses a remote tier that the engine cannot speak to, whoever runs it.
func validateBinding(c *candidate, spec *field.Path) field.ErrorList {
	provider, found := storage.Lookup(c.provider)
	if !found || c.adapter == nil || supports(c.adapter, provider) {
		return nil
	}
	var accepted []string
	for _, name := range storage.Names() {
		if other, _ := storage.Lookup(name); supports(c.adapter, other) {
			accepted = append(accepted, string(name))
		}
	}
	detail := fmt.Sprintf("%s takes no remote tier; remove remoteStorage", c.adapter.Name())
	if len(accepted) > 0 {
		detail = fmt.Sprintf("%s does not speak %s; use %s, or remove remoteStorage",
			c.adapter.Name(), provider.Protocol(), strings.Join(accepted, " or "))
	}
	return field.ErrorList{field.Invalid(spec.Child("remoteStorage", "provider"), string(c.provider), detail)}
}

func supports(adapter engine.Adapter, provider storage.Provider) bool {
	return adapter.SupportsBinding(&binding.Binding{Protocol: provider.Protocol()})
}

func validateLMCacheType(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.LMCache == nil || c.cacheType == "" || c.cacheType == v1alpha1.CacheTypeLMCache {
		return nil
	}
	return field.ErrorList{field.Forbidden(spec.Child("lmCache"),
		fmt.Sprintf("configures the type LMCache, and the type is %s; remove it", c.cacheType))}
}

func validateHostMemory(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.LMCache == nil || c.spec.LMCache.HostMemory == nil {
		return nil
	}
	if c.spec.LMCache.HostMemory.Capacity == nil {
		return nil
	}
	fldPath := spec.Child("lmCache", "hostMemory", "capacity")
	capacity := quantity.Of(*c.spec.LMCache.HostMemory.Capacity)
	switch {
	case capacity.Sign() <= 0:
		return field.ErrorList{field.Invalid(fldPath, shownValue(capacity), "must be more than 0; leave it out for the default")}
	case !capacity.InRange():
		return field.ErrorList{field.Invalid(fldPath, shownValue(capacity), tooLarge)}
	}
	return nil
}
