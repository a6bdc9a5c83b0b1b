// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errorKey identifies an error. Two errors with one key are the same violation.
type errorKey struct {
	errorType field.ErrorType
	field     string
	badValue  string
	detail    string
}

// Introduced returns the errors of the new object that the old one does not have. An
// update is refused only for these: an object that was admitted under laxer rules stays
// editable, while a bad field that is edited into another bad value is refused.
func Introduced(newErrs, oldErrs field.ErrorList) field.ErrorList {
	known := sets.New[errorKey]()
	for _, err := range oldErrs {
		known.Insert(keyOf(err))
	}
	var introduced field.ErrorList
	for _, err := range newErrs {
		if !known.Has(keyOf(err)) {
			introduced = append(introduced, err)
		}
	}
	return introduced
}

func keyOf(err *field.Error) errorKey {
	return errorKey{
		errorType: err.Type,
		field:     err.Field,
		badValue:  canonicalValue(err.BadValue),
		detail:    err.Detail,
	}
}

// canonicalValue spells a value so that equal values have equal spellings, wherever they
// are stored: JSON follows pointers and sorts keys.
func canonicalValue(value any) string {
	if e, ok := value.(excerpt); ok {
		value = e.whole
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%#v", value)
	}
	return string(text)
}
