// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTemplate(t *testing.T) {
	t.Parallel()
	full := func(spec *corev1.PodSpec) {
		template := fullTemplate()
		spec.NodeSelector = template.NodeSelector
		spec.Affinity = template.Affinity
		spec.Tolerations = template.Tolerations
		spec.TopologySpreadConstraints = template.TopologySpreadConstraints
		spec.ImagePullSecrets = template.ImagePullSecrets
		spec.ServiceAccountName = "cache-sa"
		spec.DeprecatedServiceAccount = "cache-sa"
		spec.SecurityContext = template.SecurityContext
		spec.PriorityClassName = "high"
		spec.SchedulerName = "other-scheduler"
		spec.RuntimeClassName = new("gvisor")
		spec.TerminationGracePeriodSeconds = new(int64(0))
	}
	tests := []struct {
		name     string
		template *Template
		want     func(*corev1.PodSpec)
	}{
		{name: "none", want: func(*corev1.PodSpec) {}},
		{name: "empty", template: &Template{}, want: func(*corev1.PodSpec) {}},
		{name: "full", template: fullTemplate(), want: full},
		{name: "one field", template: &Template{NodeSelector: map[string]string{"disk": "ssd"}},
			want: func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"disk": "ssd"} }},
		{name: "no time to stop", template: &Template{TerminationGracePeriodSeconds: new(int64(0))},
			want: func(spec *corev1.PodSpec) { spec.TerminationGracePeriodSeconds = new(int64(0)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range Names() {
				want := template(render(t, name, request(nil))).DeepCopy()
				tt.want(&want.Spec)
				rendered := render(t, name, request(func(r *Request) { r.Template = tt.template }))
				check(t, string(name), template(rendered), want)

				// A live workload gets the same, whatever was in it.
				live := render(t, name, request(func(r *Request) { r.Template = fullTemplate() })).Deployment
				live.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "other"}}
				mutated, _ := MutateDeployment(live, rendered)
				check(t, string(name)+" mutated", &mutated.Spec.Template, want)
			}
		})
	}
}
