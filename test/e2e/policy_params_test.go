// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPolicyWithParameters checks what comes of a policy whose parameters are of a kind that our server may not read: it
// refuses what it is about, as its failure policy says, and the server goes on for everybody else.
func TestPolicyWithParameters(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	client := env.kube.AdmissionregistrationV1()
	constraints := matching()
	constraints.NamespaceSelector = onlyIn(namespace)
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "parameters-" + namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Fail),
			ParamKind:        &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: constraints,
			Validations:      []admissionregistrationv1.Validation{{Expression: "true"}},
		},
	}
	if _, err := client.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.ValidatingAdmissionPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: policy.ObjectMeta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy.Name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			ParamRef: &admissionregistrationv1.ParamRef{
				Name: "parameters", Namespace: namespace, ParameterNotFoundAction: new(admissionregistrationv1.DenyAction),
			},
		},
	}
	if _, err := client.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.ValidatingAdmissionPolicyBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
	})

	eventually(t, "the policy refuses a backend", func(ctx context.Context) (bool, error) {
		_, err := backendsIn(namespace).Create(ctx, hostOnly("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "paramKind"), nil
	})
	createBackend(t, other, hostOnly("a"))
	if err := env.cluster.APIServerReady(t.Context()); err != nil {
		t.Errorf("the server is not ready any more: %v", err)
	}
}
