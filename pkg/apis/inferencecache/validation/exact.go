// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxBits bounds the numbers that are converted to decimal digits, which takes more than
// twice as long for twice as many. It is about 100 digits. Decoding leaves at most nine of
// them behind the point, so whatever has more bits is out of range.
const maxBits = 332

// exact is the value of a quantity: digits × 10^exponent, without leading or trailing
// zeros in the digits. The methods of resource.Quantity write numbers out to compare them,
// and a quantity such as 1e2000000000, which decodes at once, has two thousand million
// digits. Here, exponents cost nothing and long numbers are merely copied.
type exact struct {
	negative bool
	// digits is empty for 0.
	digits string
	// huge is the number in hexadecimal digits, which take no arithmetic, when it has
	// too many bits. The digits are empty then.
	huge     string
	exponent int64
}

func newExact(quantity resource.Quantity) exact {
	// AsDec changes the quantity, which is a copy. The number may be that of the original,
	// and is only read.
	dec := quantity.AsDec()
	if number := dec.UnscaledBig(); number.BitLen() > maxBits {
		huge, negative := strings.CutPrefix(number.Text(16), "-")
		return exact{negative: negative, huge: huge, exponent: -int64(dec.Scale())}
	}
	digits, negative := strings.CutPrefix(dec.UnscaledBig().Text(10), "-")
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
	case e.zero():
		return 0
	case e.negative:
		return -1
	default:
		return 1
	}
}

func (e exact) zero() bool {
	return e.digits == "" && e.huge == ""
}

// Cmp returns -1, 0 or 1, as e is less than, equal to or greater than other. The order of
// values out of range is right to about a digit.
func (e exact) Cmp(other exact) int {
	if e.Sign() != other.Sign() {
		return cmp.Compare(e.Sign(), other.Sign())
	}
	result := cmp.Or(
		cmp.Compare(e.order(), other.order()),
		cmp.Compare(len(e.huge), len(other.huge)),
		strings.Compare(e.huge, other.huge),
		strings.Compare(e.digits, other.digits),
	)
	if e.negative {
		return -result
	}
	return result
}

// order is the place of the first digit, or about that for a huge number.
func (e exact) order() int64 {
	return e.length() + e.exponent
}

// length is the number of digits.
func (e exact) length() int64 {
	if e.huge != "" {
		// A hexadecimal digit is log10(16) decimal ones.
		return int64(len(e.huge)) * 1204 / 1000
	}
	return int64(len(e.digits))
}

// tooLarge is the detail for values out of range.
const tooLarge = "must be less than 1e19, which is more than anything can count"

// InRange says whether the value is about what an int64 holds. Others must not be stored:
// whoever compares one with the methods of resource.Quantity, as controllers do, hangs.
func (e exact) InRange() bool {
	const int64Digits = 19
	return e.zero() || e.huge == "" && e.order() <= int64Digits
}

// Whole says whether the value, which is in range, is a whole number.
func (e exact) Whole() bool {
	return e.digits == "" || e.exponent >= 0
}

// MultipleOf says whether the value is a whole multiple of a size above 0. Neither is huge.
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
	if e.zero() {
		return "0"
	}
	if e.huge != "" {
		return e.signText() + "0x" + e.huge + "e" + strconv.FormatInt(e.exponent, 10)
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

// Brief spells the value for a message.
func (e exact) Brief() string {
	if e.huge != "" {
		return fmt.Sprintf("a number of about %d digits", e.length())
	}
	return brief(e.Spell())
}

// Shown is the bad value for the value.
func (e exact) Shown() any {
	spelling, text := e.Spell(), e.Brief()
	if spelling == text {
		return spelling
	}
	return excerpt{printed: text, whole: spelling}
}

func (e exact) signText() string {
	if e.negative {
		return "-"
	}
	return ""
}

// EqualQuantities says whether two quantities have the same value, in a time that does not
// depend on the exponents. Two ways to write a number out of range may count as two values.
func EqualQuantities(a, b resource.Quantity) bool {
	return newExact(a).Cmp(newExact(b)) == 0
}
