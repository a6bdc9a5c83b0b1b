// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

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
		got, ok := gibibytes(&quantity)
		if got != tt.want || ok != (tt.want > 0) {
			t.Errorf("%s is %d GiB, %v, want %d", tt.text, got, ok, tt.want)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s took %s", tt.text, took)
		}
	}
	if got, ok := gibibytes(nil); got != 0 || ok {
		t.Errorf("nothing is %d GiB", got)
	}
}
