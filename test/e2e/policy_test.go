// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// onlyIn selects one namespace.
func onlyIn(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

// backendWrites are the requests that the policies and webhooks of these tests are about.
func backendWrites() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"cachebackends"},
		},
	}
}

func matching() *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: backendWrites()}},
	}
}

// TestValidatingAdmissionPolicy checks that a cluster's own rules hold for our kinds, defaults included, where they are bound.
func TestValidatingAdmissionPolicy(t *testing.T) {
	t.Parallel()
	namespace, other := newNamespace(t), newNamespace(t)
	client := env.kube.AdmissionregistrationV1()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "validates-" + namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Fail),
			MatchConstraints: matching(),
			Validations: []admissionregistrationv1.Validation{{
				Expression: "object.spec.replicas >= 2 || object.spec.type != 'LMCache'", Message: "too few replicas",
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: policy.ObjectMeta,
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy.Name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources:    &admissionregistrationv1.MatchResources{NamespaceSelector: onlyIn(namespace)},
		},
	}
	if _, err := client.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.ValidatingAdmissionPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
	if _, err := client.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.ValidatingAdmissionPolicyBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
	})

	eventually(t, "the policy refuses a backend", func(ctx context.Context) (bool, error) {
		_, err := backendsIn(namespace).Create(ctx, hostOnly("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !(apierrors.IsInvalid(err) && strings.Contains(err.Error(), "too few replicas")) {
			return false, fmt.Errorf("got %w", err)
		}
		return err != nil, nil
	})
	enough := hostOnly("a")
	enough.Spec.Replicas = new(int32(2))
	createBackend(t, namespace, enough)
	createBackend(t, other, hostOnly("a"))
}

// TestMutatingAdmissionPolicy checks that a cluster may fill in what it wants in our kinds.
func TestMutatingAdmissionPolicy(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	client := env.kube.AdmissionregistrationV1()
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mutates-" + namespace},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      new(admissionregistrationv1.Fail),
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints:   matching(),
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{labels: {"team": "kv"}}, spec: Object.spec{replicas: 3}}`,
				},
			}},
		},
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: policy.ObjectMeta,
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName:     policy.Name,
			MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: onlyIn(namespace)},
		},
	}
	if _, err := client.MutatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.MutatingAdmissionPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
	if _, err := client.MutatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.MutatingAdmissionPolicyBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
	})
	eventually(t, "the policy fills in a backend", func(ctx context.Context) (bool, error) {
		backend, err := backendsIn(namespace).Create(ctx, hostOnly("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsServiceUnavailable(err) {
			return false, nil // The server looks for schemas at kube-apiserver every few seconds.
		}
		return err == nil && backend.Labels["team"] == "kv" && *backend.Spec.Replicas == 3, err
	})
}

// TestValidatingWebhook checks that the webhooks of a cluster are asked about our kinds, with the defaults filled in.
func TestValidatingWebhook(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		var backend v1alpha1.CacheBackend
		err := json.NewDecoder(r.Body).Decode(&review)
		if err == nil {
			err = json.Unmarshal(review.Request.Object.Raw, &backend)
		}
		if err != nil || backend.Spec.Replicas == nil {
			http.Error(w, fmt.Sprintf("bad request: %v", err), http.StatusBadRequest)
			return
		}
		asked.Add(1)
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: *backend.Spec.Replicas != 1, Warnings: []string{"seen by a webhook"},
			Result: &metav1.Status{Message: "one replica is none"},
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "webhook-" + namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "e2e.inferencecache.io",
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           new(admissionregistrationv1.Fail),
			NamespaceSelector:       onlyIn(namespace),
			Rules:                   []admissionregistrationv1.RuleWithOperations{backendWrites()},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
		}},
	}
	client := env.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := client.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Delete(context.Background(), configuration.Name, metav1.DeleteOptions{}) })

	eventually(t, "the webhook refuses a backend", func(ctx context.Context) (bool, error) {
		_, err := backendsIn(namespace).Create(ctx, hostOnly("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !strings.Contains(err.Error(), "one replica is none") {
			return false, fmt.Errorf("got %w", err)
		}
		return err != nil, nil
	})
	asked.Store(0)
	enough := minimal("CacheBackend")
	setField(enough.Object, "spec.replicas", 2)
	got := send(t, requestTo("POST", "CacheBackend", namespace), enough.Object)
	if got.err != nil || len(got.warnings) != 1 || got.warnings[0] != "seen by a webhook" {
		t.Errorf("got %v and warnings %q", got.err, got.warnings)
	}
	// kube-apiserver passes the request on without asking anybody.
	if asked.Load() != 1 {
		t.Errorf("the webhook was asked %d times", asked.Load())
	}
}
