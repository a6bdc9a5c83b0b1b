// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// TestErrorsAreLimited writes objects with thousands of violations, up to the answer.
func TestErrorsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture()
	valid := f.create(t)
	bad := valid.DeepCopy()
	bad.Spec.Integration = &inferencecache.IntegrationSpec{EngineOverrides: &inferencecache.EngineOverrides{
		Args: slices.Repeat([]string{"--enable-lmcache"}, 10_000),
	}}
	badStatus := valid.DeepCopy()
	badStatus.Status.Conditions = make([]metav1.Condition, 10_000)
	for name, validate := range map[string]func() field.ErrorList{
		"create": func() field.ErrorList { return f.strategy.Validate(t.Context(), bad) },
		"update": func() field.ErrorList { return f.strategy.ValidateUpdate(t.Context(), bad, valid) },
		"status": func() field.ErrorList {
			return statusStrategy{strategy: f.strategy}.ValidateUpdate(t.Context(), badStatus, valid)
		},
	} {
		start := time.Now()
		errs := validate()
		answer := apierrors.NewInvalid(inferencecache.SchemeGroupVersion.WithKind("CacheBackend").GroupKind(), "a", errs)
		if len(errs) != 101 || len(answer.ErrStatus.Details.Causes) != 101 {
			t.Errorf("%s: there are %d errors", name, len(errs))
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	if errs := f.strategy.ValidateUpdate(t.Context(), bad, bad.DeepCopy()); len(errs) > 0 {
		t.Errorf("an unchanged object is refused: %d errors", len(errs))
	}
}
