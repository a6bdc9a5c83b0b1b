// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func overridesPath(spec *field.Path) *field.Path {
	return spec.Child("integration", "engineOverrides")
}

// validateReservedArgs refuses to touch flags that the integration cannot work without.
// An entry is recognised by its text up to the first =, a suppressed flag by all of it.
func validateReservedArgs(c *candidate, spec *field.Path) field.ErrorList {
	if c.adapter == nil {
		return nil
	}
	var errs field.ErrorList
	reserved := c.adapter.ReservedArgs()
	for i, arg := range c.overrides().Args {
		if flag := flagOf(arg); slices.Contains(reserved, flag) {
			errs = append(errs, c.reserved(overridesPath(spec).Child("args").Index(i), flag, arg))
		}
	}
	for i, flag := range c.overrides().SuppressArgs {
		if slices.Contains(reserved, flag) {
			errs = append(errs, c.reserved(overridesPath(spec).Child("suppressArgs").Index(i), flag, flag))
		}
	}
	return errs
}

// validateReservedEnv does the same for variables.
func validateReservedEnv(c *candidate, spec *field.Path) field.ErrorList {
	if c.adapter == nil {
		return nil
	}
	var errs field.ErrorList
	reserved := c.adapter.ReservedEnv()
	for i, env := range c.overrides().Env {
		if slices.Contains(reserved, env.Name) {
			errs = append(errs, c.reserved(overridesPath(spec).Child("env").Index(i).Child("name"), env.Name, env.Name))
		}
	}
	for i, name := range c.overrides().SuppressEnv {
		if slices.Contains(reserved, name) {
			errs = append(errs, c.reserved(overridesPath(spec).Child("suppressEnv").Index(i), name, name))
		}
	}
	return errs
}

// reserved is the error for an entry that touches what is reserved. It carries the entry,
// which is not printed, so that an edit of the entry counts as a new violation.
func (c *candidate) reserved(fldPath *field.Path, what, entry string) *field.Error {
	err := field.Forbidden(fldPath,
		fmt.Sprintf("%s is reserved by the adapter %s, which cannot work without it; remove the entry", what, c.adapter.Name()))
	err.BadValue = entry
	return err
}

// flagOf returns the flag that an argument sets, or nothing if it is positional.
func flagOf(arg string) string {
	if !strings.HasPrefix(arg, "-") {
		return ""
	}
	flag, _, _ := strings.Cut(arg, "=")
	return flag
}

// validateOverrideEnv refuses variables that would make the engine's pod invalid. Pods are
// created by others, who would look for the fault in their own template.
func validateOverrideEnv(c *candidate, spec *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, env := range c.overrides().Env {
		fldPath := overridesPath(spec).Child("env").Index(i)
		errs = append(errs, validateEnvName(env.Name, fldPath.Child("name"))...)
		errs = append(errs, validateEnvSource(env, fldPath)...)
	}
	return errs
}

func validateEnvName(name string, fldPath *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(fldPath, "set the name of the variable")}
	}
	var errs field.ErrorList
	for _, message := range apivalidation.IsEnvVarName(name) {
		errs = append(errs, field.Invalid(fldPath, name, message))
	}
	return errs
}

func validateEnvSource(env corev1.EnvVar, fldPath *field.Path) field.ErrorList {
	if env.ValueFrom == nil {
		return nil
	}
	var errs field.ErrorList
	if env.Value != "" {
		errs = append(errs, field.Invalid(fldPath, env.Name, "has both a value and a source; remove one of them"))
	}
	switch sources := envSources(env.ValueFrom); {
	case len(sources) == 0:
		errs = append(errs, field.Required(fldPath.Child("valueFrom"), "set exactly one source"))
	case len(sources) > 1:
		errs = append(errs, field.Invalid(fldPath.Child("valueFrom"), strings.Join(sources, ", "),
			"must have exactly one source; remove the others"))
	}
	return errs
}

// envSources names the sources that are set.
func envSources(source *corev1.EnvVarSource) []string {
	var names []string
	for _, member := range []struct {
		name string
		set  bool
	}{
		{name: "configMapKeyRef", set: source.ConfigMapKeyRef != nil},
		{name: "fieldRef", set: source.FieldRef != nil},
		{name: "fileKeyRef", set: source.FileKeyRef != nil},
		{name: "resourceFieldRef", set: source.ResourceFieldRef != nil},
		{name: "secretKeyRef", set: source.SecretKeyRef != nil},
	} {
		if member.set {
			names = append(names, member.name)
		}
	}
	return names
}
