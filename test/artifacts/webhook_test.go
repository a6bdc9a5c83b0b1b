// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"inferencecache.io/inferencecache/pkg/admission/pod"
)

// TestWebhookRegistration pins all of it. What is not named here is unset: a selector for objects, a condition or a policy
// of matching or of calling again would decide about pods outside the code that is tested.
func TestWebhookRegistration(t *testing.T) {
	config := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, base(t))
	want := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "inference-cache"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "mpod.inferencecache.io",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{
					Namespace: systemNamespace, Name: serverName, Path: new("/mutate--v1-pod"), Port: new(int32(9443)),
				},
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
					Scope: new(admissionregistrationv1.NamespacedScope),
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{
					Key:      corev1.LabelMetadataName,
					Operator: metav1.LabelSelectorOpNotIn, Values: []string{metav1.NamespaceSystem, systemNamespace},
				},
				{Key: "inferencecache.io/injection", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"disabled"}},
			}},
			FailurePolicy:  new(admissionregistrationv1.Ignore),
			SideEffects:    new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds: new(int32(3)),
		}},
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("registration (-want +got):\n%s", diff)
	}
	if got := *config.Webhooks[0].ClientConfig.Service.Path; got != pod.Path {
		t.Errorf("registered is %s, served is %s", got, pod.Path)
	}
}

func TestWebhookNamespaces(t *testing.T) {
	config := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, base(t))
	selector, err := metav1.LabelSelectorAsSelector(config.Webhooks[0].NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	const key = "inferencecache.io/injection"
	for _, tt := range []struct {
		name  string
		label string // the value, none if empty
		want  bool
	}{
		{name: samplesNamespace, want: true},
		{name: samplesNamespace, label: "enabled", want: true},
		{name: samplesNamespace, label: "disabled"},
		{name: "kube-system"},
		{name: "kube-system", label: "enabled"},
		{name: systemNamespace},
		{name: "kube-public", want: true},
	} {
		set := labels.Set{corev1.LabelMetadataName: tt.name}
		if tt.label != "" {
			set[key] = tt.label
		}
		if got := selector.Matches(set); got != tt.want {
			t.Errorf("namespace %s: called is %v, want %v", set, got, tt.want)
		}
	}
}

// TestOneAuthorityForBoth: the APIService and the webhook are the same server, so what writes the one caBundle must write
// the other.
func TestOneAuthorityForBoth(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "overlays/cert-manager/component/kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var component struct {
		Patches []struct {
			Patch string `json:"patch"`
		} `json:"patches"`
	}
	if err := yaml.Unmarshal(content, &component); err != nil {
		t.Fatal(err)
	}
	var patched []string
	for _, p := range component.Patches {
		var obj metav1.PartialObjectMetadata
		if err := yaml.UnmarshalStrict([]byte(p.Patch), &obj); err != nil {
			t.Fatal(err)
		}
		if got := obj.Annotations["cert-manager.io/inject-ca-from"]; got != systemNamespace+"/"+serverName {
			t.Errorf("%s %s: authority from %q", obj.Kind, obj.Name, got)
		}
		patched = append(patched, obj.Kind+" "+obj.Name)
	}
	slices.Sort(patched)
	want := []string{"APIService v1alpha1.inferencecache.io", "MutatingWebhookConfiguration inference-cache"}
	if diff := cmp.Diff(want, patched); diff != "" {
		t.Errorf("patched (-want +got):\n%s", diff)
	}
}
