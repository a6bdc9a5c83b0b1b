// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resource holds what the stored kinds have in common: the answers that every
// strategy gives alike, the REST storage around a store, table printing, and lists
// straight from etcd.
package resource

import (
	"context"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Strategy is what the strategies of the stored kinds have in common. Declarative
// validation runs beside each strategy's own.
type Strategy struct {
	rest.DeclarativeValidation
	names.NameGenerator
}

// NewStrategy returns the common part of a strategy.
func NewStrategy(scheme *runtime.Scheme) Strategy {
	return Strategy{
		DeclarativeValidation: rest.DeclarativeValidation{Scheme: scheme},
		NameGenerator:         names.SimpleNameGenerator,
	}
}

// NamespaceScoped is true: every stored kind lives in a namespace.
func (Strategy) NamespaceScoped() bool { return true }

// AllowCreateOnUpdate is false: an update never creates an object.
func (Strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is false: an update names the version that it was made from.
func (Strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// Canonicalize leaves the object alone.
func (Strategy) Canonicalize(runtime.Object) {}

// WarningsOnCreate returns none.
func (Strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate returns none.
func (Strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields tells server-side apply that a write to the main resource never owns
// the status.
func (Strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("status")
}

// StatusOnly is embedded by the strategy of a status subresource, beside the strategy of
// its kind.
type StatusOnly struct{}

// GetResetFields tells server-side apply that a status write never owns anything else.
func (StatusOnly) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("metadata", "spec")
}

func resetFields(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1alpha1.APIVersion.String()): set,
	}
}

// ValidateName checks the name of a new object as for a custom resource: a lower-case DNS
// subdomain. The generic server checks the rest of the metadata.
func ValidateName(meta metav1.Object) field.ErrorList {
	var errs field.ErrorList
	for _, message := range apivalidation.NameIsDNSSubdomain(meta.GetName(), false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), meta.GetName(), message))
	}
	return errs
}
