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

	"inferencecache.io/inferencecache/pkg/adapters/quantity"
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
			errs = append(errs, c.reserved(overridesPath(spec).Child("args").Index(i), flag, abbreviated(arg)))
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
			errs = append(errs, c.reserved(overridesPath(spec).Child("env").Index(i).Child("name"), env.Name, hiddenEnv(env)))
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
func (c *candidate) reserved(fldPath *field.Path, what string, entry any) *field.Error {
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
		errs = append(errs, field.Invalid(fldPath, abbreviated(name), message))
	}
	return errs
}

// hiddenEnv is the bad value for an entry as a whole. Values may be secret, and so may be
// what they are taken from, so only the name is printed.
func hiddenEnv(env corev1.EnvVar) excerpt {
	return excerpt{printed: brief(env.Name), whole: wholeEnvOf(env)}
}

// validateEnvSource checks where the value comes from. Its errors carry the whole entry, so
// that an edit of the entry counts as a new violation.
func validateEnvSource(env corev1.EnvVar, fldPath *field.Path) field.ErrorList {
	if env.ValueFrom == nil {
		return nil
	}
	var errs field.ErrorList
	if env.Value != "" {
		errs = append(errs, field.Invalid(fldPath, hiddenEnv(env), "has both a value and a source; remove one of them"))
	}
	switch sources := envSources(env.ValueFrom); {
	case len(sources) == 0:
		err := field.Required(fldPath.Child("valueFrom"), "set exactly one source")
		err.BadValue = hiddenEnv(env)
		errs = append(errs, err)
	case len(sources) > 1:
		both := excerpt{printed: strings.Join(sources, ", "), whole: wholeEnvOf(env)}
		errs = append(errs, field.Invalid(fldPath.Child("valueFrom"), both,
			"must have exactly one source; remove the others"))
	}
	return append(errs, validateDivisor(env.ValueFrom.ResourceFieldRef, fldPath.Child("valueFrom", "resourceFieldRef", "divisor"))...)
}

// validateDivisor refuses divisors that API servers hang on when they check a pod that has
// one.
func validateDivisor(selector *corev1.ResourceFieldSelector, fldPath *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	divisor := quantity.Of(selector.Divisor)
	if divisor.InRange() {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, shownValue(divisor), tooLarge)}
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
