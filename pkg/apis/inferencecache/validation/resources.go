// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/adapters/quantity"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// reservedResourcePrefixes begin names of resources that containers cannot ask for. Quotas
// spell the request of a resource as requests.<name>.
var reservedResourcePrefixes = []string{"kubernetes.io/", "requests."}

// maxPageSize is how long a page size may be at the end of a name. Longer ones are not worth
// parsing.
const maxPageSize = 63

// validateResources refuses resources that would make the pods of the selected provider
// invalid. The ownership does not matter: a block that is in the wrong place is refused
// as such.
func validateResources(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.RemoteStorage == nil {
		return nil
	}
	name, resources := "", (*corev1.ResourceRequirements)(nil)
	remote := c.spec.RemoteStorage
	switch {
	case c.provider == v1alpha1.StorageProviderRedis && remote.Redis != nil:
		name, resources = "redis", remote.Redis.Resources
	case c.provider == v1alpha1.StorageProviderLMCacheServer && remote.LMCacheServer != nil:
		name, resources = "lmCacheServer", remote.LMCacheServer.Resources
	case c.provider == v1alpha1.StorageProviderMooncake && remote.Mooncake != nil:
		name, resources = "mooncake", remote.Mooncake.Resources
	}
	if resources == nil {
		return nil
	}
	return validateRequirements(resources, spec.Child("remoteStorage", name, "resources"))
}

func validateRequirements(resources *corev1.ResourceRequirements, fldPath *field.Path) field.ErrorList {
	errs := validateResourceList(resources.Limits, fldPath.Child("limits"))
	errs = append(errs, validateResourceList(resources.Requests, fldPath.Child("requests"))...)
	errs = append(errs, validateOvercommit(resources, fldPath)...)
	errs = append(errs, validateClaims(resources.Claims, fldPath.Child("claims"))...)
	return errs
}

// validateResourceList checks each entry by itself.
func validateResourceList(list corev1.ResourceList, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		key := resourceKey(fldPath, name)
		value := quantity.Of(list[name])
		if detail := resourceNameFault(name); detail != "" {
			errs = append(errs, field.Invalid(key, abbreviated(string(name)), detail))
		}
		if value.Sign() < 0 {
			errs = append(errs, field.Invalid(key, shownValue(value), "must be greater than or equal to 0"))
		}
		switch size, isHugePage := pageSize(name); {
		case !value.InRange():
			errs = append(errs, field.Invalid(key, shownValue(value), tooLarge))
		case isHugePage:
			if size.Sign() > 0 && value.Sign() > 0 && !value.MultipleOf(size) {
				errs = append(errs, field.Invalid(key, shownValue(value),
					fmt.Sprintf("must be a multiple of the page size %s", briefValue(size))))
			}
		case !isStandard(name) && !value.Whole():
			errs = append(errs, field.Invalid(key, shownValue(value), "must be a whole number: extended resources are not divisible"))
		}
	}
	return errs
}

// validateOvercommit compares limits with requests. Standard resources may be promised
// more than once; others are handed out whole, so both halves must be there and agree. Of
// limits alone Kubernetes makes the requests itself.
func validateOvercommit(resources *corev1.ResourceRequirements, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(resources.Requests)) {
		request := quantity.Of(resources.Requests[name])
		limitQuantity, limited := resources.Limits[name]
		limit := quantity.Of(limitQuantity)
		both := excerpt{printed: briefValue(limit), whole: []string{limit.Spell(), request.Spell()}}
		switch {
		case !limited && !isStandard(name):
			errs = append(errs, field.Invalid(resourceKey(fldPath.Child("requests"), name), shownValue(request),
				"needs an equal limit, since the resource cannot be overcommitted"))
		case !limited:
		case isStandard(name) && limit.Cmp(request) < 0:
			errs = append(errs, field.Invalid(resourceKey(fldPath.Child("limits"), name), both,
				fmt.Sprintf("must not be below the request of %s", briefValue(request))))
		case !isStandard(name) && limit.Cmp(request) != 0:
			errs = append(errs, field.Invalid(resourceKey(fldPath.Child("limits"), name), both,
				fmt.Sprintf("must equal the request of %s, since the resource cannot be overcommitted", briefValue(request))))
		}
	}
	return errs
}

// validateClaims refuses claims, which name entries of a pod that nobody renders.
func validateClaims(claims []corev1.ResourceClaim, fldPath *field.Path) field.ErrorList {
	if len(claims) == 0 {
		return nil
	}
	names := make([]string, 0, len(claims))
	for _, claim := range claims {
		names = append(names, fmt.Sprintf("%q", claim.Name))
	}
	err := field.Forbidden(fldPath,
		fmt.Sprintf("claims of dynamic resource allocation are not supported; remove %s", brief(strings.Join(names, ", "))))
	err.BadValue = claims
	return field.ErrorList{err}
}

// resourceKey is the path of an entry. A name that is too long to be one is shortened: it
// is a fault by itself, which is reported with the whole name.
func resourceKey(fldPath *field.Path, name corev1.ResourceName) *field.Path {
	const maxQualifiedName = 253 + len("/") + 63
	if len(name) > maxQualifiedName {
		return fldPath.Key(brief(string(name)))
	}
	return fldPath.Key(string(name))
}

func isStandard(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	default:
		return false
	}
}

// pageSize returns the page size that a name for huge pages ends with, 0 if that is
// malformed, and whether the name is one for huge pages at all.
func pageSize(name corev1.ResourceName) (quantity.Value, bool) {
	text, found := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !found {
		return quantity.Value{}, false
	}
	if len(text) > maxPageSize {
		return quantity.Value{}, true
	}
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return quantity.Value{}, true
	}
	return quantity.Of(size), true
}

// resourceNameFault says what is wrong with a name, or nothing. The rules are those of
// Kubernetes for the resources of a container.
func resourceNameFault(name corev1.ResourceName) string {
	if isStandard(name) {
		return ""
	}
	if size, isHugePage := pageSize(name); isHugePage {
		if size.Sign() <= 0 || len(apivalidation.IsQualifiedName(string(name))) > 0 {
			return "must end with a page size, such as hugepages-2Mi"
		}
		return ""
	}
	if !strings.Contains(string(name), "/") {
		return "must be cpu, memory, ephemeral-storage, hugepages-<size>, or the name of an extended resource such as example.com/gpu"
	}
	for _, prefix := range reservedResourcePrefixes {
		if strings.HasPrefix(string(name), prefix) {
			return fmt.Sprintf("must not begin with %s, which is reserved; use the name that the vendor gave the resource", prefix)
		}
	}
	// A quota must be able to name the resource too.
	for _, text := range []string{string(name), "requests." + string(name)} {
		if messages := apivalidation.IsQualifiedName(text); len(messages) > 0 {
			return "must be a qualified name such as example.com/gpu: " + messages[0]
		}
	}
	return ""
}
