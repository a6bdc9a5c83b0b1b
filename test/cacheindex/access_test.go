// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
)

// TestViewers asserts who may read the index: whoever has the cluster's view role for the whole cluster, and not those who have
// it in a namespace.
func TestViewers(t *testing.T) {
	working(t)
	view := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	user := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	}
	_, err := env.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"}, RoleRef: view, Subjects: user("everywhere"),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = env.kube.RbacV1().RoleBindings(metav1.NamespaceDefault).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "in-a-namespace"}, RoleRef: view, Subjects: user("in-a-namespace"),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context, user string) error {
		config := rest.CopyConfig(env.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		client, err := versioned.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.InferencecacheV1alpha1().CacheIndices().Get(ctx, indexName, metav1.GetOptions{})
		return err
	}
	// The API server remembers a refusal for some seconds.
	eventually(t, "a viewer of the cluster may read", func(ctx context.Context) error { return get(ctx, "everywhere") })
	for _, user := range []string{"in-a-namespace", "nobody"} {
		if err := get(t.Context(), user); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want forbidden", user, err)
		}
	}
}
