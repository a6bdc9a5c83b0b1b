// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxByteDigits is the number of digits of the largest amount of bytes that can be stored.
const maxByteDigits = 19

// gibibytes returns an amount of bytes in whole GiB, rounded up, and false for an amount
// that is missing, not positive, or more than validation lets through. The methods of
// resource.Quantity write numbers out, which takes minutes for a quantity such as
// 1e2000000000. Nothing here takes longer than the digits that somebody wrote.
func gibibytes(quantity *resource.Quantity) (int64, bool) {
	if quantity == nil || quantity.Sign() <= 0 {
		return 0, false
	}
	// AsDec changes the quantity.
	copied := quantity.DeepCopy()
	dec := copied.AsDec()
	digits, exponent := dec.UnscaledBig(), -int64(dec.Scale())
	order := int64(len(digits.Text(10))) + exponent
	switch {
	case order > maxByteDigits:
		return 0, false
	case order <= 0:
		// Less than one byte.
		return 1, true
	}
	bytes := new(big.Int).Set(digits)
	if exponent >= 0 {
		bytes.Mul(bytes, power10(exponent))
	} else {
		divideUp(bytes, power10(-exponent))
	}
	divideUp(bytes, big.NewInt(1<<30))
	return bytes.Int64(), true
}

func power10(exponent int64) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(exponent), nil)
}

// divideUp divides a positive number and rounds up.
func divideUp(number, divisor *big.Int) {
	remainder := new(big.Int)
	number.QuoRem(number, divisor, remainder)
	if remainder.Sign() > 0 {
		number.Add(number, big.NewInt(1))
	}
}
