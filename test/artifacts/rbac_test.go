// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestRBACHasNoWildcards(t *testing.T) {
	objects := base(t)
	var rules []rbacv1.PolicyRule
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		rules = append(rules, role.Rules...)
	}
	for _, role := range only[*rbacv1.Role](objects) {
		rules = append(rules, role.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("no rules")
	}
	for _, rule := range rules {
		for _, value := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames) {
			if strings.Contains(value, "*") {
				t.Errorf("wildcard in %v", rule)
			}
		}
		if len(rule.NonResourceURLs) != 0 {
			t.Errorf("URLs in %v", rule)
		}
	}
}

// bindings are the roles that a service account is bound to.
func bindings(objects []runtime.Object, account string) map[string]bool {
	isAccount := func(subject rbacv1.Subject) bool {
		return subject == rbacv1.Subject{Kind: "ServiceAccount", Name: account, Namespace: systemNamespace}
	}
	bound := map[string]bool{}
	for _, binding := range only[*rbacv1.ClusterRoleBinding](objects) {
		if len(binding.Subjects) == 1 && isAccount(binding.Subjects[0]) {
			bound[binding.RoleRef.Kind+" "+binding.RoleRef.Name] = true
		}
	}
	for _, binding := range only[*rbacv1.RoleBinding](objects) {
		if len(binding.Subjects) == 1 && isAccount(binding.Subjects[0]) {
			bound[binding.RoleRef.Kind+" "+binding.Namespace+"/"+binding.RoleRef.Name] = true
		}
	}
	return bound
}

// roleRules are the rules of the Role with a name.
func roleRules(objects []runtime.Object, name string) []rbacv1.PolicyRule {
	for _, role := range only[*rbacv1.Role](objects) {
		if role.Name == name {
			return role.Rules
		}
	}
	return nil
}

// TestAccounts: every pod has an account of its own, and every binding is one of theirs.
func TestAccounts(t *testing.T) {
	objects := base(t)
	accounts := map[string]bool{}
	for _, account := range only[*corev1.ServiceAccount](objects) {
		accounts[account.Name] = account.Namespace == systemNamespace
	}
	server := one[*appsv1.StatefulSet](t, objects).Spec.Template.Spec.ServiceAccountName
	controller := one[*appsv1.Deployment](t, objects).Spec.Template.Spec.ServiceAccountName
	if diff := cmp.Diff(map[string]bool{server: true, controller: true}, accounts); diff != "" || server != serverName || controller != controllerName {
		t.Errorf("the pods run as %s and %s; accounts (-want +got):\n%s", server, controller, diff)
	}
	all := len(only[*rbacv1.ClusterRoleBinding](objects)) + len(only[*rbacv1.RoleBinding](objects))
	if bound := len(bindings(objects, server)) + len(bindings(objects, controller)); bound != all {
		t.Errorf("%d of %d bindings are for these accounts", bound, all)
	}
}

// TestServerAccount pins all that the server may do: more is a decision, not a slip.
func TestServerAccount(t *testing.T) {
	objects := base(t)
	if diff := cmp.Diff(map[string]bool{
		"ClusterRole system:auth-delegator":                          true,
		"ClusterRole " + serverName:                                  true,
		"Role kube-system/extension-apiserver-authentication-reader": true,
		"Role " + systemNamespace + "/" + serverName:                 true,
	}, bindings(objects, serverName)); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"inference-cache-store"},
			Verbs: []string{"get", "update"}},
	}, roleRules(objects, serverName)); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		if role.Name != serverName {
			continue
		}
		for _, rule := range role.Rules {
			if len(rule.Resources) == 1 && slices.Equal(rule.Verbs, serverWrites[rule.Resources[0]]) {
				continue
			}
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("the server may %s %v", verb, rule.Resources)
				}
			}
		}
	}
}

// TestControllerAccount pins all that the controller may do. That it can do its work with that is proved on a cluster.
func TestControllerAccount(t *testing.T) {
	objects := base(t)
	if diff := cmp.Diff(map[string]bool{
		"ClusterRole " + controllerName:                  true,
		"Role " + systemNamespace + "/" + controllerName: true,
	}, bindings(objects, controllerName)); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	verbs := map[string]string{}
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		if role.Name != controllerName {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				key := rule.APIGroups[0] + "/" + resource
				verbs[key] = strings.TrimSpace(verbs[key] + " " + strings.Join(rule.Verbs, " "))
			}
		}
	}
	const child = "create delete get list patch watch"
	if diff := cmp.Diff(map[string]string{
		"inferencecache.io/cachebackends": "list watch get", "inferencecache.io/cachebackends/status": "patch",
		"inferencecache.io/cachebackends/finalizers": "update",
		"inferencecache.io/cachepolicies":            "list watch",
		"inferencecache.io/cachetenants":             "list watch", "inferencecache.io/cachetenants/status": "patch",
		"apps/deployments": child, "apps/statefulsets": child, "apps/replicasets": "get", "/services": child,
		"autoscaling/horizontalpodautoscalers": child,
		"/pods":                                "list watch", "events.k8s.io/events": "create patch",
	}, verbs); diff != "" {
		t.Errorf("cluster role (-want +got):\n%s", diff)
	}
	lease := func(verbs []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: names, Verbs: verbs}
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		lease([]string{"create"}),
		lease([]string{"get", "update"}, "inference-cache-controller-leader-lock"),
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}, roleRules(objects, controllerName)); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}
}

// serverWrites are the only writes of the server in the whole cluster.
var serverWrites = map[string][]string{
	"flowschemas/status":    {"patch"},
	"resourcequotas/status": {"update"},
}

func TestUserRoles(t *testing.T) {
	group := []string{v1alpha1.GroupName}
	aggregated := func(into ...string) metav1.ObjectMeta {
		labels := map[string]string{}
		for _, role := range into {
			labels["rbac.authorization.k8s.io/aggregate-to-"+role] = "true"
		}
		return metav1.ObjectMeta{Labels: labels}
	}
	rules := func(resource string, verbs ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{resource}, Verbs: verbs},
			{APIGroups: group, Resources: []string{resource + "/status"}, Verbs: []string{"get"}},
		}
	}
	want := map[string]rbacv1.ClusterRole{
		"inference-cache-cacheindex-viewer": {ObjectMeta: aggregated("view"), Rules: []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{"cacheindices"}, Verbs: []string{"get", "list", "watch"}},
		}},
	}
	for kind, resource := range map[string]string{"cachebackend": "cachebackends", "cachepolicy": "cachepolicies", "cachetenant": "cachetenants"} {
		want["inference-cache-"+kind+"-viewer"] = rbacv1.ClusterRole{ObjectMeta: aggregated("view"), Rules: rules(resource, "get", "list", "watch")}
		want["inference-cache-"+kind+"-editor"] = rbacv1.ClusterRole{
			ObjectMeta: aggregated("edit", "admin"),
			Rules:      rules(resource, "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
		}
	}
	got := map[string]rbacv1.ClusterRole{}
	for _, role := range only[*rbacv1.ClusterRole](base(t)) {
		if role.Name != serverName && role.Name != controllerName {
			got[role.Name] = rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Labels: role.Labels}, Rules: role.Rules}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}
