// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestFormatRate(t *testing.T) {
	t.Parallel()
	tests := map[string]float32{
		"0":           0,
		"1":           float32(999999999.0 / 1e9),
		"0.33333334":  float32(1.0 / 3),
		"0.6666667":   float32(2.0 / 3),
		"0.75":        0.75,
		"0.375":       0.375,
		"0.000000001": float32(1.0 / 1e9),
		"100000000":   1e8,
	}
	for want, rate := range tests {
		if got := FormatRate(rate); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := FormatRate(float32(math.Copysign(0, -1))); got != "0" {
		t.Errorf("got %s for a zero with a sign", got)
	}
}

func FuzzFormatRate(f *testing.F) {
	for _, rate := range []float32{0, 1, 1.0 / 3, 1e-9, math.SmallestNonzeroFloat32, math.MaxFloat32} {
		f.Add(math.Float32bits(rate))
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		rate := math.Float32frombits(bits)
		if rate != rate || math.IsInf(float64(rate), 0) {
			return // The decoder lets neither in.
		}
		text := FormatRate(rate)
		if strings.Trim(text, "-.0123456789") != "" {
			t.Errorf("%s is no plain decimal", text)
		}
		if back, err := strconv.ParseFloat(text, 32); err != nil || float32(back) != rate {
			t.Errorf("%s reads back as %v and error %v, not as %v", text, back, err, rate)
		}
	})
}
