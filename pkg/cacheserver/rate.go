// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import "strconv"

// FormatRate writes a rate as our API has it: the shortest decimal that reads back as the
// same number of single precision, without an exponent. Zero has no sign.
func FormatRate(rate float32) string {
	if rate == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(rate), 'f', -1, 32)
}
