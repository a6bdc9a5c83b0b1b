// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/quantity"
)

// checkOverrides refuses overrides that were stored under laxer rules and that API servers
// hang on when they check the pod.
func checkOverrides(overrides Overrides) error {
	for i, entry := range overrides.Env {
		if entry.ValueFrom == nil || entry.ValueFrom.ResourceFieldRef == nil {
			continue
		}
		if !quantity.Of(entry.ValueFrom.ResourceFieldRef.Divisor).InRange() {
			return fmt.Errorf("the divisor of engineOverrides.env[%d] is out of range; change it to less than 1e19", i)
		}
	}
	return nil
}

// applyOverrides amends what the injection did to a container. The template is the
// container before it. What the template has and the injection left alone belongs to the
// user and is never touched.
func applyOverrides(template, container *corev1.Container, overrides Overrides) {
	if len(overrides.Args)+len(overrides.SuppressArgs) > 0 {
		container.Args = mergeArgs(template.Args, container.Args, overrides.SuppressArgs, overrides.Args)
	}
	if len(overrides.Env)+len(overrides.SuppressEnv) > 0 {
		container.Env = mergeEnv(template.Env, container.Env, overrides.SuppressEnv, overrides.Env)
	}
}

// mergeArgs suppresses and overrides arguments. Before are the arguments without the
// injection, after those with it. If the result is injected and merged again, it comes out
// as it is. That leaves out flags that the integration cannot work without, which nobody
// can override.
func mergeArgs(before, after, suppress, overrides []string) []string {
	template, list, entries := splitArgs(before), splitArgs(after), splitArgs(overrides)
	users, injected := argValues(template), changedArgs(template, list)
	for _, flag := range suppress {
		if !injected[flag] {
			continue
		}
		keep := -1
		if readdedArg(template, entries, flag) {
			keep = indexFlag(list, flag)
		}
		list = deleteExcept(list, keep, func(arg argument) bool { return arg.flag == flag })
	}
	for _, entry := range entries {
		_, known := users[entry.flag]
		switch i := indexFlag(list, entry.flag); {
		case entry.flag == "":
			// Its place is all that a positional argument has for a name, so it is not
			// added to an equal one.
			if !hasSlot(list, entry.slots[0]) {
				list = append(list, entry)
			}
		case injected[entry.flag] && i >= 0:
			list[i] = entry
		case injected[entry.flag] || !known:
			list = append(list, entry)
		}
	}
	return joinArgs(list)
}

// changedArgs returns the flags that the injection added or gave another value. Another
// spelling is no other value.
func changedArgs(before, after []argument) map[string]bool {
	changed := map[string]bool{}
	old := argValues(before)
	for flag, value := range argValues(after) {
		if oldValue, had := old[flag]; !had || oldValue != value {
			changed[flag] = true
		}
	}
	return changed
}

// readdedArg says whether the template has, once and to the letter, what the overrides put
// in the place of a suppressed flag. Then it stems from an earlier merge and keeps its
// place: what was appended after it then must not come before it now.
func readdedArg(template, entries []argument, flag string) bool {
	var present, wanted []argument
	for _, arg := range template {
		if arg.flag == flag {
			present = append(present, arg)
		}
	}
	for _, entry := range entries {
		if entry.flag == flag {
			wanted = append(wanted, entry)
		}
	}
	return len(present) == 1 && len(wanted) > 0 && slices.Equal(present[0].slots, wanted[len(wanted)-1].slots)
}

// mergeEnv does for variables, by name, what mergeArgs does for arguments.
func mergeEnv(before, after []corev1.EnvVar, suppress []string, overrides []corev1.EnvVar) []corev1.EnvVar {
	list := slices.Clone(after)
	users, injected := envValues(before), changedEnv(before, after)
	for _, name := range suppress {
		if !injected[name] {
			continue
		}
		keep := -1
		if readdedEnv(before, overrides, name) {
			keep = indexEnv(list, name)
		}
		list = deleteExcept(list, keep, func(e corev1.EnvVar) bool { return e.Name == name })
	}
	for i := range overrides {
		entry := *overrides[i].DeepCopy()
		present, known := users[entry.Name]
		if known && sameEnv(present, entry) {
			// It may have what API servers fill in.
			entry = *present.DeepCopy()
		}
		switch i := indexEnv(list, entry.Name); {
		case injected[entry.Name] && i >= 0:
			list[i] = entry
		case injected[entry.Name] || !known:
			list = append(list, entry)
		}
	}
	return list
}

func changedEnv(before, after []corev1.EnvVar) map[string]bool {
	changed := map[string]bool{}
	old := envValues(before)
	for name, entry := range envValues(after) {
		if oldEntry, had := old[name]; !had || !sameEnv(oldEntry, entry) {
			changed[name] = true
		}
	}
	return changed
}

func readdedEnv(before, overrides []corev1.EnvVar, name string) bool {
	var present, wanted []corev1.EnvVar
	for _, entry := range before {
		if entry.Name == name {
			present = append(present, entry)
		}
	}
	for _, entry := range overrides {
		if entry.Name == name {
			wanted = append(wanted, entry)
		}
	}
	return len(present) == 1 && len(wanted) > 0 && sameEnv(present[0], wanted[len(wanted)-1])
}

// envValues returns the entry of each name, the last if there are several, as containers
// see it.
func envValues(env []corev1.EnvVar) map[string]corev1.EnvVar {
	values := make(map[string]corev1.EnvVar, len(env))
	for _, entry := range env {
		values[entry.Name] = entry
	}
	return values
}

// sameEnv compares two entries. What API servers fill in counts as what is left out.
// Divisors of templates may be of any size, so they are compared as they are stored: the
// methods of resource.Quantity would write them out.
func sameEnv(a, b corev1.EnvVar) bool {
	return reflect.DeepEqual(normalEnv(a), normalEnv(b))
}

func normalEnv(entry corev1.EnvVar) corev1.EnvVar {
	if entry.ValueFrom == nil {
		return entry
	}
	normal := entry.DeepCopy()
	if field := normal.ValueFrom.FieldRef; field != nil && field.APIVersion == "" {
		field.APIVersion = "v1"
	}
	if field := normal.ValueFrom.ResourceFieldRef; field != nil && field.Divisor.IsZero() {
		field.Divisor = resource.Quantity{}
	}
	return *normal
}

// deleteExcept deletes the items that match, but for the one at an index.
func deleteExcept[T any](list []T, keep int, matches func(T) bool) []T {
	var kept []T
	for i, item := range list {
		if i == keep || !matches(item) {
			kept = append(kept, item)
		}
	}
	return kept
}
