// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestLimitErrors(t *testing.T) {
	t.Parallel()
	list := func(n int, path *field.Path) field.ErrorList {
		var errs field.ErrorList
		for i := range n {
			errs = append(errs, field.Invalid(path.Index(i), i, "is bad"))
		}
		return errs
	}
	for _, n := range []int{0, 1, maxErrors} {
		if got := LimitErrors(list(n, field.NewPath("spec", "a"))); len(got) != n {
			t.Errorf("%d errors become %d", n, len(got))
		}
	}
	for _, n := range []int{maxErrors + 1, 10_000} {
		errs := list(n, field.NewPath("status", "conditions"))
		next := errs[maxErrors]
		got := LimitErrors(errs)
		if len(got) != maxErrors+1 || got[maxErrors-1] != errs[maxErrors-1] {
			t.Fatalf("%d errors become %d", n, len(got))
		}
		last := got[maxErrors]
		if last.Type != field.ErrorTypeTooMany || last.Field != "status" || last.BadValue != n {
			t.Errorf("the last error is %v", last)
		}
		if errs[maxErrors] != next {
			t.Error("the list that was passed in is changed")
		}
	}
	want := "spec: Too many: 101: there are 101 violations; the first 100 are listed"
	if got := LimitErrors(list(101, field.NewPath("spec", "a")))[maxErrors].Error(); got != want {
		t.Errorf("the last error is %q, want %q", got, want)
	}
}
