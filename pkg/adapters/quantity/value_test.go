// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// manyDigits returns a whole number of that many digits and more.
func manyDigits(n, end int64) resource.Quantity {
	number := new(big.Int).Lsh(big.NewInt(1), uint(n*10/3))
	quantity := resource.MustParse("1")
	quantity.AsDec().SetUnscaledBig(number.Add(number, big.NewInt(end)))
	return quantity
}

func TestSpell(t *testing.T) {
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
		value := Of(resource.MustParse(tt.quantity))
		if got := value.Spell(); got != tt.spelling {
			t.Errorf("%s is spelt %s, want %s", tt.quantity, got, tt.spelling)
		}
		if value.Whole() != tt.whole {
			t.Errorf("%s: whole is %v", tt.quantity, value.Whole())
		}
	}
}

func TestOfLeavesTheQuantityAlone(t *testing.T) {
	t.Parallel()
	quantity := resource.MustParse("1.5Gi")
	before := fmt.Sprintf("%#v", quantity)
	Of(quantity)
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
			if got, want := Of(a).Cmp(Of(b)), min(1, max(-1, i-j)); got != want {
				t.Errorf("value %d compared with value %d is %d", i, j, got)
			}
			if Equal(a, b) != (i == j) {
				t.Errorf("value %d equals value %d: %v", i, j, i != j)
			}
		}
	}
}

func negative(quantity resource.Quantity) *resource.Quantity {
	quantity.Neg()
	return &quantity
}

// FuzzValues compares values with what resource.Quantity says, where that can say it in reasonable time.
func FuzzValues(f *testing.F) {
	for _, pair := range [][2]string{{"0", "1n"}, {"1Gi", "1024Mi"}, {"-1.5", "1500m"}, {"9e18", "8Ei"}, {"1e30", "3"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, ok := parse(a)
		y, okay := parse(b)
		if ok && okay {
			checkValues(t, x, y)
		}
	})
}

// parse leaves out what resource.Quantity itself cannot cope with.
func parse(text string) (resource.Quantity, bool) {
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); len(text) > 40 || found && len(exponent) > 3 {
		return resource.Quantity{}, false
	}
	quantity, err := resource.ParseQuantity(text)
	return quantity, err == nil
}

func checkValues(t *testing.T, a, b resource.Quantity) {
	t.Helper()
	x, y := Of(a), Of(b)
	if x.huge != "" || y.huge != "" {
		for _, value := range []Value{x, y} {
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
	if err != nil || Of(again) != x {
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

func TestGibibytes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want int64
	}{
		{text: "1", want: 1},
		{text: "500m", want: 1},
		{text: "1n", want: 1},
		{text: "1Gi", want: 1},
		{text: "1536Mi", want: 2},
		{text: "12500M", want: 12},
		{text: "1073741824", want: 1},
		{text: "1073741824001m", want: 2},
		{text: "1073741825", want: 2},
		{text: "10500Mi", want: 11},
		{text: "2Ti", want: 2048},
		{text: "8Ei", want: 8589934592},
		{text: "0.5Gi", want: 1},
		{text: "1e10", want: 10},
		{text: "9e18", want: 8381903172},
		{text: "9999999999999999999", want: 9313225747},
		{text: "0"},
		{text: "-1Gi"},
		{text: "1e19"},
		{text: "1e2000000000"},
		{text: "-1e2000000000"},
		{text: "1" + strings.Repeat("0", 98) + "1"},
		{text: strings.Repeat("7", 10_000)},
	}
	for _, tt := range tests {
		quantity := resource.MustParse(tt.text)
		start := time.Now()
		if got := Of(quantity).Gibibytes(); got != tt.want {
			t.Errorf("%s is %d GiB, want %d", tt.text, got, tt.want)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s took %s", tt.text, took)
		}
	}
}
