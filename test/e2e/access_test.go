// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/clientset/versioned"
)

// clusterRoles are the cluster's own roles for the people in a namespace, which ours flow into.
var clusterRoles = []string{"view", "edit", "admin"}

// bindRoles gives each role to a user of the same name in a namespace.
func bindRoles(t *testing.T, namespace string) {
	t.Helper()
	for role, verb := range map[string]string{"view": "watch", "edit": "deletecollection", "admin": "deletecollection"} {
		bindRole(t, namespace, role, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}, role, verb)
	}
}

// bindRole gives a role to somebody and waits until it covers a verb on our kinds: the cluster assembles these roles from
// others. To ask the API server itself would be too early, since it remembers for some seconds what it was told.
func bindRole(t *testing.T, namespace, role string, subject rbacv1.Subject, user, verb string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: role + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
	if _, err := env.kube.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: verb, Group: v1alpha1.GroupName, Resource: "cachebackends",
		},
	}}
	eventually(t, user+" may "+verb, func(ctx context.Context) (bool, error) {
		answer, err := env.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
}

// clientAs returns a client that acts for a user without groups.
func clientAs(t *testing.T, user string) rest.Interface {
	t.Helper()
	config := rest.CopyConfig(env.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.InferencecacheV1alpha1().RESTClient()
}

// action is one way to use a resource.
type action struct {
	verb    string
	allowed []string // The roles that may.

	method      string
	named       bool
	subresource string
}

func actions() []action {
	readers, editors := []string{"view", "edit", "admin"}, []string{"edit", "admin"}
	return []action{
		{"get", readers, http.MethodGet, true, ""},
		{"list", readers, http.MethodGet, false, ""},
		{"watch", readers, http.MethodGet, false, ""},
		{"get", readers, http.MethodGet, true, "status"},
		{"create", editors, http.MethodPost, false, ""},
		{"update", editors, http.MethodPut, true, ""},
		{"patch", editors, http.MethodPatch, true, ""},
		{"delete", editors, http.MethodDelete, true, ""},
		{"deletecollection", editors, http.MethodDelete, false, ""},
		{"update", nil, http.MethodPut, true, "status"},
		{"patch", nil, http.MethodPatch, true, "status"},
	}
}

// do performs the action on an object, without an effect, and returns the error that comes instead of an answer.
func (a action) do(ctx context.Context, client rest.Interface, object *unstructured.Unstructured) error {
	request := client.Verb(a.method).Namespace(object.GetNamespace()).Resource(resources[object.GetKind()].Resource)
	if a.named {
		request.Name(object.GetName()).SubResource(a.subresource)
	}
	if a.verb == "watch" {
		request.Param("watch", "true")
	}
	if a.method != http.MethodGet {
		request.Param("dryRun", metav1.DryRunAll)
	}
	body, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	switch a.method {
	case http.MethodPost, http.MethodPut:
		request.SetHeader("Content-Type", "application/json").Body(body)
	case http.MethodPatch:
		request.SetHeader("Content-Type", "application/merge-patch+json").Body([]byte(`{}`))
	}
	// A stream, because a watch has no end.
	stream, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	return stream.Close()
}

// TestRoles checks who in a namespace may do what: readers read, editors write all but the status, and that is nobody's but
// the control plane's.
func TestRoles(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	bindRoles(t, namespace)
	for kind, resource := range resources {
		object, err := env.dynamic.Resource(resource).Namespace(namespace).Create(t.Context(), minimal(kind), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range append([]string{"nobody"}, clusterRoles...) {
			client := clientAs(t, user)
			for _, action := range actions() {
				toSend := object
				if action.verb == "create" {
					toSend = object.DeepCopy()
					toSend.SetResourceVersion("")
				}
				err := action.do(t.Context(), client, toSend)
				switch allowed := slices.Contains(action.allowed, user); {
				case !allowed && !apierrors.IsForbidden(err):
					t.Errorf("%s may %s %s/%s: %v", user, action.verb, resource.Resource, action.subresource, err)
				case allowed && action.verb == "create" && apierrors.IsAlreadyExists(err):
					// Nobody is told so who may not create.
				case allowed && err != nil:
					t.Errorf("%s, %s %s/%s: %v", user, action.verb, resource.Resource, action.subresource, err)
				}
			}
		}
	}
}
