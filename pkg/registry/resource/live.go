// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// ListFunc returns the list of what a namespace holds at this moment.
type ListFunc func(ctx context.Context, namespace string) (runtime.Object, error)

// Live lists stored objects straight from etcd. Each list is one linearizable read that
// ends with its context. The watch cache serves consistent lists too, but it waits for
// its own progress without regard to the context, and shares its objects with everybody.
type Live struct {
	store *genericregistry.Store
}

// NewLive returns the live view of what store will keep. It takes the store before its
// options are completed.
func NewLive(store *genericregistry.Store, options generic.RESTOptionsGetter) (*Live, error) {
	live := *store
	if err := live.CompleteWithOptions(&generic.StoreOptions{RESTOptions: undecorated{options}}); err != nil {
		return nil, fmt.Errorf("completing live store of %s: %w", store.DefaultQualifiedResource, err)
	}
	return &Live{store: &live}, nil
}

// List returns all objects of one namespace. An empty namespace is an error and not a
// list of all namespaces.
func (l *Live) List(ctx context.Context, namespace string) (runtime.Object, error) {
	if namespace == "" {
		return nil, fmt.Errorf("listing %s: no namespace given", l.store.DefaultQualifiedResource)
	}
	ctx = genericapirequest.WithNamespace(ctx, namespace)
	return l.store.List(ctx, &metainternalversion.ListOptions{})
}

// Destroy releases the connection to etcd.
func (l *Live) Destroy() { l.store.Destroy() }

// undecorated takes the watch cache away from what it is given.
type undecorated struct {
	generic.RESTOptionsGetter
}

// GetRESTOptions returns the options of the resource without a watch cache and without
// the counting of objects, which the main store does.
func (u undecorated) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := u.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	options.Decorator = generic.UndecoratedStorage
	options.CountMetricPollPeriod = 0
	return options, nil
}
