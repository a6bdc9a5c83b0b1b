// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"math"
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxDigits is the number of digits of the largest quantity that can be rendered.
const maxDigits = 19

var errTooLarge = errors.New("the quantity is out of range")

// normalizeQuantity returns a quantity as the API server stores it, which rounds up to
// thousandths. Quantities beyond 63 bits are an error: comparing, rounding and sending one
// write it out, which takes minutes and gigabytes for 1e2000000000, here and in the API
// server. Nothing here takes longer than the digits that somebody wrote.
func normalizeQuantity(quantity resource.Quantity) (resource.Quantity, error) {
	if quantity.Sign() == 0 {
		// Zero may have such an exponent too.
		return *resource.NewQuantity(0, resource.DecimalSI), nil
	}
	quantity = quantity.DeepCopy()
	// AsDec changes the quantity, so it gets another copy.
	copied := quantity.DeepCopy()
	dec := copied.AsDec()
	digits := new(big.Int).Abs(dec.UnscaledBig()).Text(10)
	if int64(len(digits))-int64(dec.Scale()) > maxDigits || quantity.CmpInt64(math.MaxInt64) > 0 {
		return resource.Quantity{}, errTooLarge
	}
	quantity.RoundUp(resource.Milli)
	return quantity, nil
}
