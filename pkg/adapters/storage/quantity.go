// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/quantity"
)

var errTooLarge = errors.New("the quantity is out of range")

// normalizeQuantity returns a quantity as the API server stores it, which rounds up to
// thousandths. Quantities beyond 63 bits are an error: comparing, rounding and sending one
// write it out, which takes minutes and gigabytes for 1e2000000000, here and in the API
// server.
func normalizeQuantity(given resource.Quantity) (resource.Quantity, error) {
	if given.Sign() == 0 {
		// Zero may have such an exponent too.
		return *resource.NewQuantity(0, resource.DecimalSI), nil
	}
	normal := given.DeepCopy()
	if !quantity.Of(given).InRange() || normal.CmpInt64(math.MaxInt64) > 0 {
		return resource.Quantity{}, errTooLarge
	}
	normal.RoundUp(resource.Milli)
	return normal, nil
}
