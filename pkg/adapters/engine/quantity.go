// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxOrder is the number of digits of the largest quantity that validation lets
	// through.
	maxOrder = 19
	// maxBits bounds the numbers whose digits are counted, at about 100 digits. Decoding
	// leaves at most nine of them behind the point, so whatever has more bits is too
	// large.
	maxBits = 332
)

// decimal is a quantity as number × 10^exponent. The methods of resource.Quantity write
// numbers out, which takes minutes for a quantity such as 1e2000000000. Nothing here does
// so before it is known to be short.
type decimal struct {
	number   *big.Int
	exponent int64
}

// newDecimal returns a decimal that is only to be read: it may share its number with the
// quantity.
func newDecimal(quantity resource.Quantity) decimal {
	dec := quantity.AsDec()
	return decimal{number: dec.UnscaledBig(), exponent: -int64(dec.Scale())}
}

// inRange says whether the quantity is one that validation lets through.
func (d decimal) inRange() bool {
	return d.number.Sign() == 0 || d.number.BitLen() <= maxBits && d.order() <= maxOrder
}

// order is the place of the first digit.
func (d decimal) order() int64 {
	digits := strings.TrimPrefix(d.number.Text(10), "-")
	return int64(len(digits)) + d.exponent
}

// gibibytes returns an amount of bytes in whole GiB, rounded up, and false for an amount
// that is missing, not positive, or more than validation lets through.
func gibibytes(quantity *resource.Quantity) (int64, bool) {
	if quantity == nil || quantity.Sign() <= 0 {
		return 0, false
	}
	value := newDecimal(*quantity)
	switch {
	case !value.inRange():
		return 0, false
	case value.order() <= 0:
		// Less than one byte.
		return 1, true
	}
	bytes := new(big.Int).Set(value.number)
	if value.exponent >= 0 {
		bytes.Mul(bytes, power10(value.exponent))
	} else {
		divideUp(bytes, power10(-value.exponent))
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
