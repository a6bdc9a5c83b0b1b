// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"inferencecache.io/inferencecache/pkg/adapters/quantity"
)

// tooLarge is the detail for quantities out of range.
const tooLarge = "must be less than 1e19, which is more than anything can count"

// briefValue spells a quantity for a message.
func briefValue(value quantity.Value) string {
	if value.Huge() {
		return fmt.Sprintf("a number of about %d digits", value.Digits())
	}
	return brief(value.Spell())
}

// shownValue is the bad value for a quantity.
func shownValue(value quantity.Value) any {
	spelling, text := value.Spell(), briefValue(value)
	if spelling == text {
		return spelling
	}
	return excerpt{printed: text, whole: spelling}
}
