// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strconv"
	"strings"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// OptsOut says whether a pod with these annotations asks to be left alone. Anything but a
// clear no counts as a yes: whoever writes the annotation wants something.
func OptsOut(annotations map[string]string) bool {
	value := annotations[v1alpha1.AnnotationSkipInject]
	if value == "" {
		return false
	}
	if parsed, err := strconv.ParseBool(value); err == nil {
		return parsed
	}
	return !slices.Contains([]string{"no", "off", "disable", "disabled"}, strings.ToLower(value))
}
