// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// createNumbered creates backends "b-0", "b-1" and so on, labelled with the parity of their number.
func createNumbered(t *testing.T, namespace string, count int) {
	t.Helper()
	for i := range count {
		backend := hostOnly(fmt.Sprintf("b-%d", i))
		backend.Labels = map[string]string{"parity": []string{"even", "odd"}[i%2]}
		createBackend(t, namespace, backend)
	}
}

func list(t *testing.T, namespace string, options metav1.ListOptions) *v1alpha1.CacheBackendList {
	t.Helper()
	found, err := backendsIn(namespace).List(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func names(found *v1alpha1.CacheBackendList) []string {
	names := make([]string, 0, len(found.Items))
	for _, backend := range found.Items {
		names = append(names, backend.Name)
	}
	return names
}

// TestPagination checks that a long list comes in pages which together show one moment, whatever is written meanwhile.
func TestPagination(t *testing.T) {
	t.Parallel()
	history.RLock()
	defer history.RUnlock()
	namespace := newNamespace(t)
	createNumbered(t, namespace, 7)
	page := list(t, namespace, metav1.ListOptions{Limit: 3})
	if remaining := page.RemainingItemCount; remaining == nil || *remaining != 4 || page.Continue == "" {
		t.Fatalf("first page: got %+v", page.ListMeta)
	}
	createBackend(t, namespace, hostOnly("b-5x"))
	if err := backendsIn(namespace).Delete(t.Context(), "b-6", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	all, version := names(page), page.ResourceVersion
	for page.Continue != "" {
		page = list(t, namespace, metav1.ListOptions{Limit: 3, Continue: page.Continue})
		all = append(all, names(page)...)
		if page.ResourceVersion != version {
			t.Errorf("a page is of version %s, the first was of %s", page.ResourceVersion, version)
		}
	}
	if want := []string{"b-0", "b-1", "b-2", "b-3", "b-4", "b-5", "b-6"}; !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
	// The end has nothing to continue from, and with a selector nobody knows how much remains.
	if page.RemainingItemCount != nil {
		t.Errorf("last page: got %+v", page.ListMeta)
	}
	if page = list(t, namespace, metav1.ListOptions{Limit: 1, LabelSelector: "parity=odd"}); page.RemainingItemCount != nil || page.Continue == "" {
		t.Errorf("with a selector: got %+v", page.ListMeta)
	}
	_, err := backendsIn(namespace).List(t.Context(), metav1.ListOptions{Limit: 1, Continue: "nonsense"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("nonsense to continue from: got %v, want a bad request", err)
	}
}

// TestExpiredContinue checks what a client gets that takes too long over its pages: an error that says so, with a token to
// go on from the same place in the present state.
func TestExpiredContinue(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createNumbered(t, namespace, 4)
	page := list(t, namespace, metav1.ListOptions{Limit: 2})
	createBackend(t, namespace, hostOnly("b-2x"))
	compact(t)

	var expired apierrors.APIStatus
	// The server keeps snapshots of its own for some seconds after etcd has forgotten.
	eventually(t, "the token expires", func(ctx context.Context) (bool, error) {
		_, err := backendsIn(namespace).List(ctx, metav1.ListOptions{Limit: 2, Continue: page.Continue})
		if err == nil {
			return false, nil
		}
		status, ok := err.(apierrors.APIStatus)
		if !ok || !apierrors.IsResourceExpired(err) {
			return false, fmt.Errorf("got %w, want expired", err)
		}
		expired = status
		return true, nil
	})
	fresh := expired.Status().Continue
	if fresh == "" {
		t.Fatalf("no token to go on with: %+v", expired.Status())
	}
	rest := list(t, namespace, metav1.ListOptions{Limit: 10, Continue: fresh})
	if want := []string{"b-2", "b-2x", "b-3"}; !slices.Equal(names(rest), want) {
		t.Errorf("got %q, want the present rest %q", names(rest), want)
	}
}

// history is held for reading by tests that go back to versions which they have seen, and for writing by what makes the
// servers forget.
var history sync.RWMutex

// compact makes etcd forget all but its present state, and tells the API servers as they tell one another. The etcd is that
// of kube-apiserver too, for which this is nothing special.
func compact(t *testing.T) {
	t.Helper()
	history.Lock()
	defer history.Unlock()
	const revisionKey = "compact_rev_key"
	current, err := env.etcd.Get(t.Context(), revisionKey)
	if err != nil {
		t.Fatal(err)
	}
	revision := current.Header.Revision
	if _, err := env.etcd.Put(t.Context(), revisionKey, strconv.FormatInt(revision, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := env.etcd.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

// TestListVersions checks that a list can be had from a cache, at least as new as a version, or exactly of it.
func TestListVersions(t *testing.T) {
	t.Parallel()
	history.RLock()
	defer history.RUnlock()
	namespace := newNamespace(t)
	createNumbered(t, namespace, 1)
	version := list(t, namespace, metav1.ListOptions{}).ResourceVersion
	later := createBackend(t, namespace, hostOnly("later"))
	for _, test := range []struct {
		options metav1.ListOptions
		want    []string
	}{
		{metav1.ListOptions{}, []string{"b-0", "later"}},
		{metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Limit: 5}, []string{"b-0"}},
		{metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, []string{"b-0"}},
		{metav1.ListOptions{ResourceVersion: later.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, []string{"b-0", "later"}},
	} {
		if got := names(list(t, namespace, test.options)); !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %q, want %q", test.options, got, test.want)
		}
	}
	// Version 0 is any state that the cache has, so it gets here in the end.
	eventually(t, "the cache has both", func(ctx context.Context) (bool, error) {
		found, err := backendsIn(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && len(found.Items) == 2, err
	})
}

// TestSelectors checks selection by labels, and by the only two fields that every kind has.
func TestSelectors(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	createNumbered(t, namespace, 3)
	createNumbered(t, other, 1)
	for _, test := range []struct {
		namespace string
		options   metav1.ListOptions
		want      []string
	}{
		{namespace, metav1.ListOptions{LabelSelector: "parity=odd"}, []string{"b-1"}},
		{namespace, metav1.ListOptions{LabelSelector: "parity notin (odd)"}, []string{"b-0", "b-2"}},
		{namespace, metav1.ListOptions{LabelSelector: "!parity"}, nil},
		{namespace, metav1.ListOptions{FieldSelector: "metadata.name=b-2"}, []string{"b-2"}},
		{namespace, metav1.ListOptions{FieldSelector: "metadata.name!=b-2"}, []string{"b-0", "b-1"}},
		{namespace, metav1.ListOptions{FieldSelector: "metadata.name=b-2", LabelSelector: "parity=odd"}, nil},
		{metav1.NamespaceAll, metav1.ListOptions{FieldSelector: "metadata.namespace=" + other}, []string{"b-0"}},
		{metav1.NamespaceAll, metav1.ListOptions{FieldSelector: "metadata.name=b-0,metadata.namespace=" + namespace}, []string{"b-0"}},
	} {
		if got := names(list(t, test.namespace, test.options)); !slices.Equal(got, test.want) {
			t.Errorf("%q %+v: got %q, want %q", test.namespace, test.options, got, test.want)
		}
	}
	for _, selector := range []string{"spec.runtime=VLLM", "status.endpoint=a", "metadata.uid=a"} {
		_, err := backendsIn(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if !apierrors.IsBadRequest(err) {
			t.Errorf("%s: got %v, want a bad request", selector, err)
		}
	}
}

// TestDeleteCollection checks that a selector bounds what is deleted.
func TestDeleteCollection(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	createNumbered(t, namespace, 4)
	createNumbered(t, other, 1)
	remove := func(options metav1.ListOptions) {
		t.Helper()
		if err := backendsIn(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, options); err != nil {
			t.Fatal(err)
		}
	}
	remove(metav1.ListOptions{LabelSelector: "parity=odd"})
	if got := names(list(t, namespace, metav1.ListOptions{})); !slices.Equal(got, []string{"b-0", "b-2"}) {
		t.Errorf("left: %q", got)
	}
	remove(metav1.ListOptions{FieldSelector: "metadata.name=b-2"})
	if got := names(list(t, namespace, metav1.ListOptions{})); !slices.Equal(got, []string{"b-0"}) {
		t.Errorf("left: %q", got)
	}
	remove(metav1.ListOptions{})
	if left, elsewhere := list(t, namespace, metav1.ListOptions{}), list(t, other, metav1.ListOptions{}); len(left.Items) != 0 || len(elsewhere.Items) != 1 {
		t.Errorf("left: %q, in the other namespace %q", names(left), names(elsewhere))
	}
}
