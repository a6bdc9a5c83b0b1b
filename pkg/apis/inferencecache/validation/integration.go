// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// kernelChecks are the accepted values of the kernel-check annotation.
var kernelChecks = []string{
	v1alpha1.KernelCheckAuto,
	v1alpha1.KernelCheckReportOnly,
	v1alpha1.KernelCheckStrict,
	v1alpha1.KernelCheckOff,
}

// validateKernelCheck refuses misspelled values, which would silently relax a check that
// the operator wants to be strict.
func validateKernelCheck(annotations map[string]string, fldPath *field.Path) field.ErrorList {
	value := annotations[v1alpha1.AnnotationKernelCheck]
	if value == "" || slices.Contains(kernelChecks, value) {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.Key(v1alpha1.AnnotationKernelCheck), abbreviated(value),
		"must be one of "+strings.Join(kernelChecks, ", "))}
}

// validateEventsOnly refuses what belongs to offloading when nothing is offloaded.
func validateEventsOnly(c *candidate, spec *field.Path) field.ErrorList {
	if !c.eventsOnly() {
		return nil
	}
	var errs field.ErrorList
	if c.cacheType != "" && c.cacheType != v1alpha1.CacheTypeLMCache {
		errs = append(errs, field.Forbidden(spec.Child("integration", "mode"),
			fmt.Sprintf("EventsOnly needs the type LMCache, and the type is %s; use Offload or change the type", c.cacheType)))
	}
	if c.spec.Autoscaling != nil {
		errs = append(errs, field.Forbidden(spec.Child("autoscaling"),
			"there is nothing to scale with the mode EventsOnly; remove it"))
	}
	if c.spec.RemoteStorage != nil {
		errs = append(errs, field.Forbidden(spec.Child("remoteStorage"),
			"no remote tier is used with the mode EventsOnly; remove it, or use the mode Offload"))
	}
	return errs
}

// validateRole refuses roles that SGLang's LMCache wiring has no setting for.
func validateRole(c *candidate, spec *field.Path) field.ErrorList {
	if c.runtime != v1alpha1.RuntimeSGLang || c.cacheType != v1alpha1.CacheTypeLMCache {
		return nil
	}
	if c.role == "" || c.role == v1alpha1.IntegrationRoleReadWrite {
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("integration", "role"), string(c.role),
		"SGLang always reads and writes LMCache; use ReadWrite")}
}

// validateEngineHostNetwork refuses to put engines on the host network for nothing.
func validateEngineHostNetwork(c *candidate, spec *field.Path) field.ErrorList {
	if !c.engineHostNetwork() {
		return nil
	}
	switch {
	case c.spec.RemoteStorage != nil && c.provider == "":
		return nil
	case c.provider == v1alpha1.StorageProviderMooncake:
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("integration", "engineHostNetwork"), true,
		"only the provider Mooncake needs engines on the host network; remove it")}
}
