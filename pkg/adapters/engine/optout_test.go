// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestOptsOut(t *testing.T) {
	t.Parallel()
	for want, values := range map[bool][]string{
		false: {"", "0", "f", "F", "false", "FALSE", "False", "no", "No", "OFF", "disable", "Disabled"},
		true:  {"1", "t", "T", "TRUE", "true", "True", "yes", "n", "fAlse", " false", "please do not"},
	} {
		for _, value := range values {
			if got := OptsOut(map[string]string{v1alpha1.AnnotationSkipInject: value}); got != want {
				t.Errorf("%q: got %v, want %v", value, got, want)
			}
		}
	}
	if OptsOut(nil) {
		t.Error("a pod without annotations opts out")
	}
}
