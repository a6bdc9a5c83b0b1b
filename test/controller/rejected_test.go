// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const refusedImage = "example.com/refused:v2"

// TestRejectedUpdate: while the cluster's rules keep a change out, the backend is what its old state is, and tells about
// the new one.
func TestRejectedUpdate(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitState(up)
	s.refuseImage()
	s.edit(func(b *v1alpha1.CacheBackend) {
		b.Spec.RemoteStorage.LMCacheServer = &v1alpha1.LMCacheServerSpec{Image: refusedImage}
	})
	var backend *v1alpha1.CacheBackend
	eventually(t, "the backend tells", func(ctx context.Context) (err error) {
		if backend, err = s.backends().Get(ctx, s.name, metav1.GetOptions{}); err != nil {
			return err
		}
		if said := message(backend, v1alpha1.ConditionProgressing); !strings.Contains(said, "this image is not for us") {
			return errors.New("Progressing says " + said)
		}
		return nil
	})
	if got := state(backend); got != up || backend.Status.ObservedGeneration != 1 {
		t.Errorf("the state is %s of generation %d", got, backend.Status.ObservedGeneration)
	}
	for _, condition := range backend.Status.Conditions {
		if condition.ObservedGeneration != 1 {
			t.Errorf("%s is of generation %d", condition.Type, condition.ObservedGeneration)
		}
	}
	described, _, err := env.Kubectl(t.Context(), "-n", s.namespace, "describe", "cachebackend", s.name)
	must(t, err)
	if !strings.Contains(described, "this image is not for us") {
		t.Errorf("kubectl describe does not tell:\n%s", described)
	}

	must(t, env.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}))
	backend = s.waitState(up)
	if ready := apimeta.FindStatusCondition(backend.Status.Conditions, v1alpha1.ConditionReady); ready.ObservedGeneration != 2 {
		t.Errorf("Ready is of generation %d", ready.ObservedGeneration)
	}
	if got := s.object("Deployment").(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image; got != refusedImage {
		t.Errorf("the image is %s", got)
	}
	s.endsWithEvents()
}

// refuseImage makes the cluster keep an image out of the test's namespace, and waits until it does.
func (s *subject) refuseImage() {
	s.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
						},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: `object.spec.template.spec.containers.all(c, c.image != "` + refusedImage + `")`,
				Message:    "this image is not for us",
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy.Name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			MatchResources: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			},
		},
	}
	client := env.kube.AdmissionregistrationV1()
	_, err := client.ValidatingAdmissionPolicies().Create(s.Context(), policy, metav1.CreateOptions{})
	must(s.T, err)
	_, err = client.ValidatingAdmissionPolicyBindings().Create(s.Context(), binding, metav1.CreateOptions{})
	must(s.T, err)
	s.Cleanup(func() {
		_ = client.ValidatingAdmissionPolicyBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
		_ = client.ValidatingAdmissionPolicies().Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
	eventually(s.T, "the image is refused", func(ctx context.Context) error {
		_, _, err := env.Kubectl(ctx, "-n", s.namespace, "create", "deployment", "probe", "--image="+refusedImage, "--dry-run=server")
		if err == nil {
			return errors.New("it is not")
		}
		if !strings.Contains(err.Error(), "this image is not for us") {
			return err
		}
		return nil
	})
}

// TestNoRoomInTheQuota: a backend whose workload cannot be made is on its way, and says what keeps it.
func TestNoRoomInTheQuota(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "no-deployments"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}},
	}
	_, err := env.kube.CoreV1().ResourceQuotas(s.namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	must(t, err)
	s.kubectl("wait", "resourcequota", quota.Name, "--for=jsonpath={.status.hard.count/deployments\\.apps}=0", "--timeout=2m")
	h := s.record()
	s.create()
	eventually(t, "the backend tells", func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if said := message(backend, v1alpha1.ConditionProgressing); state(backend) != rollingOut || !strings.Contains(said, "exceeded quota") {
			return errors.New(state(backend) + ": " + said)
		}
		return nil
	})
	s.waitObjects()
	s.kubectl("delete", "resourcequota", quota.Name)
	s.waitState(up)
	s.expect(h, "", rollingOut, up)
	s.endsWithEvents()
}
