// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// exact is the value of a quantity: digits × 10^exponent, without leading or trailing
// zeros in the digits. The methods of resource.Quantity write numbers out to compare them,
// and a quantity such as 1e2000000000, which decodes at once, has two thousand million
// digits. Nothing here takes longer than the digits that somebody wrote.
type exact struct {
	negative bool
	// digits is empty for 0.
	digits   string
	exponent int64
}

func newExact(quantity resource.Quantity) exact {
	// AsDec changes the quantity, which may share its number with the original.
	copied := quantity.DeepCopy()
	dec := copied.AsDec()
	text := dec.UnscaledBig().Text(10)
	digits, negative := strings.CutPrefix(text, "-")
	digits = strings.TrimLeft(digits, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return exact{}
	}
	return exact{
		negative: negative,
		digits:   trimmed,
		exponent: int64(len(digits)-len(trimmed)) - int64(dec.Scale()),
	}
}

// Sign returns -1, 0 or 1.
func (e exact) Sign() int {
	switch {
	case e.digits == "":
		return 0
	case e.negative:
		return -1
	default:
		return 1
	}
}

// Cmp returns -1, 0 or 1, as e is less than, equal to or greater than other.
func (e exact) Cmp(other exact) int {
	if e.Sign() != other.Sign() {
		return sign(int64(e.Sign() - other.Sign()))
	}
	result := sign(e.order() - other.order())
	if result == 0 {
		result = strings.Compare(e.digits, other.digits)
	}
	if e.negative {
		return -result
	}
	return result
}

// order is the place of the first digit.
func (e exact) order() int64 {
	return int64(len(e.digits)) + e.exponent
}

// tooLarge is the detail for values out of range.
const tooLarge = "must be less than 1e19, which is more than anything can count"

// InRange says whether the value is about what an int64 holds. Others must not be stored:
// whoever compares one with the methods of resource.Quantity, as controllers do, hangs.
func (e exact) InRange() bool {
	const int64Digits = 19
	return e.digits == "" || e.order() <= int64Digits
}

// Whole says whether the value is a whole number.
func (e exact) Whole() bool {
	return e.digits == "" || e.exponent >= 0
}

// MultipleOf says whether the value is a whole multiple of a size above 0.
func (e exact) MultipleOf(size exact) bool {
	if e.digits == "" {
		return true
	}
	if e.exponent < size.exponent {
		// The digits would have to end in 0.
		return false
	}
	modulus := size.mantissa()
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(e.exponent-size.exponent), modulus)
	product := power.Mul(power, e.mantissa())
	return product.Mod(product, modulus).Sign() == 0
}

func (e exact) mantissa() *big.Int {
	// The digits come from a big.Int, so they are one.
	mantissa, _ := new(big.Int).SetString(e.digits, 10)
	return mantissa
}

// Spell writes the value the same way however it was written: 1073741824 and 1024Mi are
// both 1Gi.
func (e exact) Spell() string {
	const int64Digits = 18
	if e.digits == "" {
		return "0"
	}
	if len(e.digits) > int64Digits || e.order() > int64Digits {
		return e.signText() + e.digits + "e" + strconv.FormatInt(e.exponent, 10)
	}
	// Bounded above, and by the smallest unit of quantities, a billionth, below.
	mantissa, _ := strconv.ParseInt(e.digits, 10, 64)
	decimal := resource.NewScaledQuantity(mantissa, resource.Scale(e.exponent))
	text := decimal.String()
	if e.Whole() {
		binary := resource.NewQuantity(decimal.Value(), resource.BinarySI).String()
		if len(binary) <= len(text) {
			text = binary
		}
	}
	return e.signText() + text
}

func (e exact) signText() string {
	if e.negative {
		return "-"
	}
	return ""
}

func sign(difference int64) int {
	switch {
	case difference < 0:
		return -1
	case difference > 0:
		return 1
	default:
		return 0
	}
}

// EqualQuantities says whether two quantities have the same value. It takes no longer than
// the digits that somebody wrote, whatever the exponents are.
func EqualQuantities(a, b resource.Quantity) bool {
	return newExact(a).Cmp(newExact(b)) == 0
}
