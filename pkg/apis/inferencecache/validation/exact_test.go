// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"math/big"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// manyDigits returns a whole number of that many digits and more.
func manyDigits(n, end int64) resource.Quantity {
	number := new(big.Int).Lsh(big.NewInt(1), uint(n*10/3))
	quantity := resource.MustParse("1")
	quantity.AsDec().SetUnscaledBig(number.Add(number, big.NewInt(end)))
	return quantity
}

func TestExact(t *testing.T) {
	t.Parallel()
	tests := []struct {
		quantity, spelling string
		whole              bool
	}{
		{quantity: "0", spelling: "0", whole: true},
		{quantity: "0e2000000000", spelling: "0", whole: true},
		{quantity: "1Gi", spelling: "1Gi", whole: true},
		{quantity: "1024Mi", spelling: "1Gi", whole: true},
		{quantity: "1073741824", spelling: "1Gi", whole: true},
		{quantity: "-1Gi", spelling: "-1Gi", whole: true},
		{quantity: "1000m", spelling: "1", whole: true},
		{quantity: "1.0", spelling: "1", whole: true},
		{quantity: "1500m", spelling: "1500m"},
		{quantity: "-0.5", spelling: "-500m"},
		{quantity: "1n", spelling: "1n"},
		{quantity: "1e3", spelling: "1k", whole: true},
		{quantity: "1E", spelling: "1e18", whole: true},
		{quantity: "100P", spelling: "100P", whole: true},
		{quantity: "8G", spelling: "8G", whole: true},
		{quantity: "-1e2000000000", spelling: "-1e2000000000", whole: true},
	}
	for _, tt := range tests {
		value := newExact(resource.MustParse(tt.quantity))
		if got := value.Spell(); got != tt.spelling {
			t.Errorf("%s is spelt %s, want %s", tt.quantity, got, tt.spelling)
		}
		if value.Whole() != tt.whole {
			t.Errorf("%s: whole is %v", tt.quantity, value.Whole())
		}
	}
}

func TestExactLeavesTheQuantityAlone(t *testing.T) {
	t.Parallel()
	quantity := resource.MustParse("1.5Gi")
	before := fmt.Sprintf("%#v", quantity)
	newExact(quantity)
	if after := fmt.Sprintf("%#v", quantity); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

func TestHugeIsOrdered(t *testing.T) {
	t.Parallel()
	ascending := []resource.Quantity{
		*negative(manyDigits(300, 1)), resource.MustParse("-1"), resource.MustParse("0"), resource.MustParse("1"),
		manyDigits(150, 0), manyDigits(300, 0), manyDigits(300, 1), manyDigits(400, 0), resource.MustParse("1e2000000000"),
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := newExact(a).Cmp(newExact(b)), min(1, max(-1, i-j)); got != want {
				t.Errorf("value %d compared with value %d is %d", i, j, got)
			}
			if EqualQuantities(a, b) != (i == j) {
				t.Errorf("value %d equals value %d: %v", i, j, i != j)
			}
		}
	}
}

func negative(quantity resource.Quantity) *resource.Quantity {
	quantity.Neg()
	return &quantity
}

func checkExact(t *testing.T, a, b resource.Quantity) {
	t.Helper()
	x, y := newExact(a), newExact(b)
	if x.huge != "" || y.huge != "" {
		for _, value := range []exact{x, y} {
			if value.huge != "" && value.InRange() {
				t.Errorf("%s is in range", value.Spell())
			}
		}
		return
	}
	if got, want := x.Cmp(y), a.Cmp(b); got != want {
		t.Errorf("%s compared with %s is %d, want %d", &a, &b, got, want)
	}
	if x.Sign() != a.Sign() {
		t.Errorf("sign of %s is %d", &a, x.Sign())
	}
	if (x.Cmp(y) == 0) != (x.Spell() == y.Spell()) {
		t.Errorf("%s is spelt %s and %s is spelt %s", &a, x.Spell(), &b, y.Spell())
	}
	again, err := resource.ParseQuantity(x.Spell())
	if err != nil || newExact(again) != x {
		t.Errorf("%s is spelt %s, which is %s, %v", &a, x.Spell(), &again, err)
	}
	av, aok := a.AsInt64()
	bv, bok := b.AsInt64()
	if aok && bok && av >= 0 && bv > 0 {
		if got, want := x.MultipleOf(y), av%bv == 0; got != want {
			t.Errorf("%s is a multiple of %s: %v, want %v", &a, &b, got, want)
		}
	}
}
