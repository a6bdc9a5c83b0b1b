// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachepolicy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestErrorsAreLimited(t *testing.T) {
	t.Parallel()
	old := &inferencecache.CachePolicy{}
	bad := old.DeepCopy()
	bad.Status.Conditions = make([]metav1.Condition, 1000)
	if errs := (statusStrategy{}).ValidateUpdate(t.Context(), bad, old); len(errs) != 101 {
		t.Errorf("there are %d errors", len(errs))
	}
}
