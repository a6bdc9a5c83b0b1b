// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrors bounds the errors of one answer. Joining messages takes time that grows with
// the square of their number, and nobody reads more.
const maxErrors = 100

// LimitErrors cuts a list of errors after the first ones and says at its end how many
// there were. Every strategy returns its errors through it. What declarative validation
// adds after that is bounded by the schema.
func LimitErrors(errs field.ErrorList) field.ErrorList {
	if len(errs) <= maxErrors {
		return errs
	}
	part, _, _ := strings.Cut(errs[maxErrors].Field, ".")
	last := field.TooMany(field.NewPath(part), len(errs), maxErrors)
	last.Detail = fmt.Sprintf("there are %d violations; the first %d are listed", len(errs), maxErrors)
	return append(slices.Clip(errs[:maxErrors]), last)
}
