// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quantity works with the values of resource quantities in a time that does not
// depend on their exponents.
package quantity

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxBits bounds the numbers that are converted to decimal digits, which takes more than
// twice as long for twice as many. It is about 100 digits. Decoding leaves at most nine of
// them behind the point, so whatever has more bits is out of range.
const maxBits = 332

// Value is the value of a quantity: digits × 10^exponent, without leading or trailing
// zeros in the digits. The methods of resource.Quantity write numbers out to compare them,
// and a quantity such as 1e2000000000, which decodes at once, has two thousand million
// digits. Here, exponents cost nothing and long numbers are merely copied.
type Value struct {
	negative bool
	// digits is empty for 0.
	digits string
	// huge is the number in hexadecimal digits, which take no arithmetic, when it has
	// too many bits. The digits are empty then.
	huge     string
	exponent int64
}

// Of returns the value of a quantity, which it leaves as it is.
func Of(quantity resource.Quantity) Value {
	// AsDec changes the quantity, which is a copy. The number may be that of the original,
	// and is only read.
	dec := quantity.AsDec()
	if number := dec.UnscaledBig(); number.BitLen() > maxBits {
		huge, negative := strings.CutPrefix(number.Text(16), "-")
		return Value{negative: negative, huge: huge, exponent: -int64(dec.Scale())}
	}
	digits, negative := strings.CutPrefix(dec.UnscaledBig().Text(10), "-")
	digits = strings.TrimLeft(digits, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return Value{}
	}
	return Value{
		negative: negative,
		digits:   trimmed,
		exponent: int64(len(digits)-len(trimmed)) - int64(dec.Scale()),
	}
}

// Sign returns -1, 0 or 1.
func (v Value) Sign() int {
	switch {
	case v.zero():
		return 0
	case v.negative:
		return -1
	default:
		return 1
	}
}

func (v Value) zero() bool {
	return v.digits == "" && v.huge == ""
}

// Cmp returns -1, 0 or 1, as v is less than, equal to or greater than other. The order of
// values out of range is right to about a digit.
func (v Value) Cmp(other Value) int {
	if v.Sign() != other.Sign() {
		return cmp.Compare(v.Sign(), other.Sign())
	}
	result := cmp.Or(
		cmp.Compare(v.order(), other.order()),
		cmp.Compare(len(v.huge), len(other.huge)),
		strings.Compare(v.huge, other.huge),
		strings.Compare(v.digits, other.digits),
	)
	if v.negative {
		return -result
	}
	return result
}

// order is the place of the first digit, or about that for a huge number.
func (v Value) order() int64 {
	return v.length() + v.exponent
}

// length is the number of digits.
func (v Value) length() int64 {
	if v.huge != "" {
		// A hexadecimal digit is log10(16) decimal ones.
		return int64(len(v.huge)) * 1204 / 1000
	}
	return int64(len(v.digits))
}

// InRange says whether the value is about what an int64 holds. Others must not be stored:
// whoever compares one with the methods of resource.Quantity, as controllers do, hangs.
func (v Value) InRange() bool {
	const int64Digits = 19
	return v.zero() || v.huge == "" && v.order() <= int64Digits
}

// Whole says whether the value, which is in range, is a whole number.
func (v Value) Whole() bool {
	return v.digits == "" || v.exponent >= 0
}

// MultipleOf says whether the value is a whole multiple of a size above 0. Neither is huge.
func (v Value) MultipleOf(size Value) bool {
	if v.digits == "" {
		return true
	}
	if v.exponent < size.exponent {
		// The digits would have to end in 0.
		return false
	}
	modulus := size.mantissa()
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(v.exponent-size.exponent), modulus)
	product := power.Mul(power, v.mantissa())
	return product.Mod(product, modulus).Sign() == 0
}

func (v Value) mantissa() *big.Int {
	// The digits come from a big.Int, so they are one.
	mantissa, _ := new(big.Int).SetString(v.digits, 10)
	return mantissa
}

// Spell writes the value the same way however it was written: 1073741824 and 1024Mi are
// both 1Gi.
func (v Value) Spell() string {
	const int64Digits = 18
	if v.zero() {
		return "0"
	}
	if v.huge != "" {
		return v.signText() + "0x" + v.huge + "e" + strconv.FormatInt(v.exponent, 10)
	}
	if len(v.digits) > int64Digits || v.order() > int64Digits {
		return v.signText() + v.digits + "e" + strconv.FormatInt(v.exponent, 10)
	}
	// Bounded above, and by the smallest unit of quantities, a billionth, below.
	mantissa, _ := strconv.ParseInt(v.digits, 10, 64)
	decimal := resource.NewScaledQuantity(mantissa, resource.Scale(v.exponent))
	text := decimal.String()
	if v.Whole() {
		binary := resource.NewQuantity(decimal.Value(), resource.BinarySI).String()
		if len(binary) <= len(text) {
			text = binary
		}
	}
	return v.signText() + text
}

// Huge says that the value was not converted to decimal digits, since it has too many: about
// as many as Digits says. It is not in range.
func (v Value) Huge() bool { return v.huge != "" }

// Digits is the number of digits of the value, without zeros at its end.
func (v Value) Digits() int64 { return v.length() }

// Gibibytes is a number of bytes in whole GiB, rounded up. It is 0 for what is not positive
// or not in range.
func (v Value) Gibibytes() int64 {
	if v.Sign() <= 0 || !v.InRange() {
		return 0
	}
	if v.order() <= 0 {
		return 1 // Less than a byte.
	}
	bytes := v.mantissa()
	if v.exponent >= 0 {
		bytes.Mul(bytes, power10(v.exponent))
	} else {
		divideUp(bytes, power10(-v.exponent))
	}
	divideUp(bytes, big.NewInt(1<<30))
	return bytes.Int64()
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

func (v Value) signText() string {
	if v.negative {
		return "-"
	}
	return ""
}

// Equal says whether two quantities have the same value, in a time that does not
// depend on the exponents. Two ways to write a number out of range may count as two values.
func Equal(a, b resource.Quantity) bool {
	return Of(a).Cmp(Of(b)) == 0
}
