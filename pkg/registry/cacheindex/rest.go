// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cacheindex serves CacheIndex, a view of the cache server's index that is made
// when somebody reads or watches it and is stored nowhere.
package cacheindex

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/cacheserver"
	"inferencecache.io/inferencecache/pkg/registry/resource"
)

// Server is what this package needs of the cache server.
type Server interface {
	// Snapshot reads the index. It ends with its context, and by itself after some seconds.
	Snapshot(ctx context.Context) (*cacheserver.Snapshot, error)
}

// REST serves the kind. It has no way to write, so every write is answered 405.
type REST struct {
	resource.Table[*inferencecache.CacheIndex]

	store  *store
	source *source
}

var (
	_ rest.Storage              = &REST{}
	_ rest.Scoper               = &REST{}
	_ rest.Getter               = &REST{}
	_ rest.Lister               = &REST{}
	_ rest.Watcher              = &REST{}
	_ rest.TableConvertor       = &REST{}
	_ rest.SingularNameProvider = &REST{}
	_ rest.ShortNamesProvider   = &REST{}
	_ rest.CategoriesProvider   = &REST{}
)

// NewREST returns the storage of cacheindices. observedServer is shown as where the index
// is read from. Nothing runs until somebody reads.
func NewREST(server Server, observedServer string, clock clock.WithTicker) *REST {
	store := newStore(clock)
	return &REST{
		Table: table,
		store: store,
		source: newSource(server, clock, func(snapshot *cacheserver.Snapshot) {
			store.publish(project(snapshot, observedServer))
		}),
	}
}

// New returns an empty object.
func (r *REST) New() runtime.Object { return &inferencecache.CacheIndex{} }

// NewList returns an empty list.
func (r *REST) NewList() runtime.Object { return &inferencecache.CacheIndexList{} }

// Destroy ends all watches and the reading of the cache server.
func (r *REST) Destroy() { r.source.close() }

// NamespaceScoped is false: there is one index.
func (r *REST) NamespaceScoped() bool { return false }

// GetSingularName returns the name of the resource for one object.
func (r *REST) GetSingularName() string { return "cacheindex" }

// ShortNames are the abbreviations that kubectl knows.
func (r *REST) ShortNames() []string { return []string{"ci"} }

// Categories are the groups of resources that kubectl lists together.
func (r *REST) Categories() []string { return []string{inferencecache.Category} }

// Get returns the object.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	if name != Name {
		return nil, apierrors.NewNotFound(inferencecache.Resource("cacheindices"), name)
	}
	seen, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	state, err := r.read(ctx, seen)
	if err != nil {
		return nil, err
	}
	return state.object(), nil
}

// List returns a list with the object, if it is selected.
func (r *REST) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	wanted, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	var state *state
	if options.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		state, err = r.store.exactly(wanted)
	} else {
		state, err = r.read(ctx, wanted)
	}
	if err != nil {
		return nil, err
	}
	list := &inferencecache.CacheIndexList{ListMeta: metav1.ListMeta{ResourceVersion: state.version.String()}}
	if selected(options) {
		list.Items = []inferencecache.CacheIndex{*state.object()}
	}
	return list, nil
}

// read returns what the cache server says now, or has said last, in a version that is not
// below the one that the reader has seen. The reader is warned if it is not fresh.
func (r *REST) read(ctx context.Context, seen version) (*state, error) {
	if r.store.tooFar(seen) {
		return nil, r.store.tooLarge(seen)
	}
	r.source.refresh(ctx)
	if complaint := r.source.complaint(); complaint != "" {
		warning.AddWarning(ctx, "", complaint)
	}
	return r.store.notOlderThan(seen), nil
}

// Watch starts a watch. The set of objects is fixed and small, so whoever comes with any
// version is brought up to date by the present state.
func (r *REST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	seen, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if r.store.tooFar(seen) {
		return nil, apierrors.NewResourceExpired("resourceVersion " + seen.String() + " is not of this resource")
	}
	w := &watcher{
		store:     r.store,
		source:    r.source,
		seen:      seen,
		selected:  selected(options),
		bookmarks: options.AllowWatchBookmarks,
		result:    make(chan watch.Event),
	}
	if initial := options.SendInitialEvents; initial != nil {
		w.initial, w.marksInitial, w.newsOnly = *initial, *initial, !*initial && seen == 0
	} else {
		w.initial = seen == 0
	}
	if !w.start(ctx) {
		return nil, apierrors.NewServiceUnavailable("the server is stopping")
	}
	return w, nil
}

// selected says whether the object is among those that somebody asks for. It has a name and
// no labels, and keeps them.
func selected(options *metainternalversion.ListOptions) bool {
	return (options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set{})) &&
		(options.FieldSelector == nil || options.FieldSelector.Matches(fields.Set{"metadata.name": Name}))
}
