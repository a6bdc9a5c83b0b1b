// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const backendUID = "5ed21b8a-1c2e-4d43-9f0e-0d4bb0a58f1a"

var (
	vllm   = Usage{Runtime: "VLLM", Type: "LMCache", Mode: "Offload", Ownership: "Managed"}
	sglang = Usage{Runtime: "SGLang", Type: "LMCache", Mode: "Offload", Ownership: "Managed"}
)

// request returns a valid request with a change.
func request(change func(*Request)) Request {
	request := Request{Namespace: "ns1", Name: "cache", UID: backendUID, Usage: vllm, Kind: "Deployment"}
	if change != nil {
		change(&request)
	}
	return request
}

func render(t testing.TB, name v1alpha1.StorageProvider, request Request) *Rendered {
	t.Helper()
	provider, found := Lookup(name)
	if !found {
		t.Fatalf("there is no provider %s", name)
	}
	rendered, err := Render(provider, request)
	if err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return rendered
}

// template returns the pods of the workload, whatever its kind.
func template(rendered *Rendered) *corev1.PodTemplateSpec {
	if rendered.StatefulSet != nil {
		return &rendered.StatefulSet.Spec.Template
	}
	return &rendered.Deployment.Spec.Template
}

// fullTemplate sets every field.
func fullTemplate() *Template {
	return &Template{
		NodeSelector: map[string]string{"disk": "ssd"},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a"}}},
				}},
			},
		}},
		Tolerations: []corev1.Toleration{{Key: "cache", Operator: corev1.TolerationOpExists}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway},
		},
		ImagePullSecrets:              []corev1.LocalObjectReference{{Name: "registry"}},
		ServiceAccountName:            "cache-sa",
		SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: new(int64(1000))},
		PriorityClassName:             "high",
		SchedulerName:                 "other-scheduler",
		RuntimeClassName:              new("gvisor"),
		TerminationGracePeriodSeconds: new(int64(0)),
	}
}

func requirements(requests, limits map[corev1.ResourceName]string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Requests: quantities(requests), Limits: quantities(limits)}
}

func quantities(texts map[corev1.ResourceName]string) corev1.ResourceList {
	if texts == nil {
		return nil
	}
	list := corev1.ResourceList{}
	for name, text := range texts {
		list[name] = resource.MustParse(text)
	}
	return list
}

// check reports a difference. Quantities are compared by value, and nil and empty are not
// the same.
func check(t *testing.T, what string, got, want any) {
	t.Helper()
	byValue := cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
	if diff := cmp.Diff(want, got, byValue, cmpopts.EquateComparable(Replicas{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
