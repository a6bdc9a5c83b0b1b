// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// REST serves a stored kind.
type REST struct {
	*genericregistry.Store
	shortNames []string
	live       *Live
}

var (
	_ rest.StandardStorage    = &REST{}
	_ rest.ShortNamesProvider = &REST{}
	_ rest.CategoriesProvider = &REST{}
)

// NewREST returns the REST storage around a store. live is released together with it.
func NewREST(store *genericregistry.Store, live *Live, shortNames ...string) *REST {
	return &REST{Store: store, shortNames: shortNames, live: live}
}

// ShortNames are the abbreviations that kubectl knows.
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories are the groups of resources that kubectl lists together.
func (r *REST) Categories() []string { return []string{inferencecache.Category} }

// Destroy releases the connections to etcd.
func (r *REST) Destroy() {
	r.Store.Destroy()
	r.live.Destroy()
}

// StatusREST serves the status subresource of a stored kind.
type StatusREST struct {
	store *genericregistry.Store
}

var (
	_ rest.Getter              = &StatusREST{}
	_ rest.Patcher             = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
	_ rest.TableConvertor      = &StatusREST{}
)

// StatusStrategy is an update strategy that lets only the status through.
type StatusStrategy interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// NewStatusREST returns the status subresource of the kind that main stores. It shares
// the storage of main and writes by strategy.
func NewStatusREST(main *genericregistry.Store, strategy StatusStrategy) *StatusREST {
	store := *main
	store.UpdateStrategy = strategy
	store.ResetFieldsStrategy = strategy
	return &StatusREST{store: &store}
}

// New returns an empty object of the kind.
func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the storage belongs to the main resource.
func (r *StatusREST) Destroy() {}

// Get returns the whole object.
func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update writes the status of an existing object; it never creates one.
func (r *StatusREST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// GetResetFields tells server-side apply which fields a status write never owns.
func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable prints the object as the main resource does.
func (r *StatusREST) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, tableOptions)
}
