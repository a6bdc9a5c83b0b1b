// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestMutateDeployment(t *testing.T) {
	t.Parallel()
	// Each change is undone, unless there is a result of its own.
	tests := []struct {
		name      string
		live      func(*appsv1.Deployment)
		want      func(*appsv1.Deployment)
		immutable []string
	}{
		{name: "nothing", live: func(*appsv1.Deployment) {}},
		{name: "replicas", live: func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) }},
		{name: "our labels", live: func(d *appsv1.Deployment) {
			d.Labels[LabelName] = "changed"
			delete(d.Labels, LabelBackendType)
		}},
		{name: "owner", live: func(d *appsv1.Deployment) { d.OwnerReferences = nil }},
		{name: "owner without control", live: func(d *appsv1.Deployment) { d.OwnerReferences[0].Controller = nil }},
		{name: "strategy", live: func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}},
		{name: "volumes", live: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data"}} }},
		{name: "host network", live: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.HostNetwork = true
			d.Spec.Template.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		}},
		{name: "template", live: func(d *appsv1.Deployment) {
			copyOverridable(&d.Spec.Template.Spec, fullTemplate().podSpec())
		}},
		{name: "only the alias of the service account", live: func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.DeprecatedServiceAccount = "cache-sa"
		}},
		{name: "container", live: func(d *appsv1.Deployment) {
			container := &d.Spec.Template.Spec.Containers[0]
			container.Image = "changed"
			container.ImagePullPolicy = corev1.PullAlways
			container.Command = []string{"changed"}
			container.Args = nil
			container.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
			container.Ports = append(container.Ports, corev1.ContainerPort{Name: "more", ContainerPort: 1})
			container.Resources = corev1.ResourceRequirements{}
			container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
			container.LivenessProbe = container.ReadinessProbe.DeepCopy()
			container.StartupProbe = container.ReadinessProbe
			container.ReadinessProbe = nil
		}},
		{name: "more containers", live: func(d *appsv1.Deployment) {
			spec := &d.Spec.Template.Spec
			spec.Containers = append([]corev1.Container{{Name: "sidecar"}}, spec.Containers...)
		}},
		{name: "other container", live: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "other" }},

		{name: "what others own", live: ofOthers, want: ofOthers},
		{name: "other controller", live: func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", UID: "other", Controller: new(true)}}
		}, want: func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", UID: "other", Controller: new(true)}}
		}},
		{name: "selector", live: func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels["app"] = "cache" },
			want:      func(d *appsv1.Deployment) { d.Spec.Selector.MatchLabels["app"] = "cache" },
			immutable: []string{"spec.selector"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			desired := render(t, "LMCacheServer", request(nil))
			live, want := desired.Deployment.DeepCopy(), desired.Deployment.DeepCopy()
			tt.live(live)
			if tt.want != nil {
				tt.want(want)
			}
			before := live.DeepCopy()
			mutated, immutable := MutateDeployment(live, desired)
			check(t, "mutated", mutated, want)
			check(t, "immutable", immutable, tt.immutable)
			check(t, "live", live, before)
		})
	}
}

// ofOthers sets what is the API server's, an operator's or another controller's.
func ofOthers(d *appsv1.Deployment) {
	d.Labels["team"] = "a"
	d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "4"}
	d.Finalizers = []string{"example.com/guard"}
	d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{Kind: "Other", UID: "other"})
	d.ResourceVersion, d.UID, d.Generation = "12", "d", 3
	d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(1))
	d.Spec.RevisionHistoryLimit = new(int32(2))
	d.Spec.MinReadySeconds = 9
	d.Spec.Paused = true
	template := &d.Spec.Template
	template.Labels["mesh"] = "on"
	template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	template.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	template.Spec.EnableServiceLinks = new(false)
	template.Spec.Containers[0].TerminationMessagePath = "/elsewhere"
	template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{}
	d.Status.Replicas = 1
}

func TestMutateDeploymentOfAnotherProvider(t *testing.T) {
	t.Parallel()
	for _, from := range Names() {
		for _, to := range Names() {
			live := render(t, from, request(func(r *Request) { r.Template = fullTemplate() })).Deployment
			desired := render(t, to, request(nil))
			mutated, immutable := MutateDeployment(live, desired)
			check(t, string(from+" to "+to), mutated, desired.Deployment)
			check(t, "immutable", immutable, []string(nil))
		}
	}
}

func TestMutateLeavesReplicasToTheAutoscaler(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		desired := render(t, "LMCacheServer", request(func(r *Request) {
			r.Kind = "Deployment"
			if kind == "StatefulSet" {
				r.Kind = "StatefulSet"
			}
			r.Autoscaling = &Autoscaling{MinReplicas: new(int32(3)), MaxReplicas: 6}
		}))
		for live, want := range map[int32]int32{0: 3, 3: 3, 5: 5, 9: 9} {
			var got *int32
			if desired.StatefulSet != nil {
				object := desired.StatefulSet.DeepCopy()
				object.Spec.Replicas = &live
				mutated, _ := MutateStatefulSet(object, desired)
				got = mutated.Spec.Replicas
			} else {
				object := desired.Deployment.DeepCopy()
				object.Spec.Replicas = &live
				mutated, _ := MutateDeployment(object, desired)
				got = mutated.Spec.Replicas
			}
			check(t, kind, *got, want)
		}
	}
}

func TestMutateStatefulSet(t *testing.T) {
	t.Parallel()
	immutable := func(s *appsv1.StatefulSet) {
		s.Spec.Selector = nil
		s.Spec.ServiceName = "other"
		s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: quantities(texts{"storage": "1e2000000000"})},
		}}}
	}
	others := func(s *appsv1.StatefulSet) {
		s.Labels["team"] = "a"
		s.Annotations = map[string]string{"a": "b"}
		s.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(1))
		s.Spec.MinReadySeconds = 5
		s.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	}
	tests := []struct {
		name      string
		live      func(*appsv1.StatefulSet)
		want      func(*appsv1.StatefulSet)
		immutable []string
	}{
		{name: "nothing", live: func(*appsv1.StatefulSet) {}},
		{name: "drift", live: func(s *appsv1.StatefulSet) {
			s.Labels = nil
			s.OwnerReferences = nil
			s.Spec.Replicas = new(int32(4))
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			s.Spec.Template.Spec.Containers[0].Image = "changed"
			s.Spec.Template.Spec.NodeSelector = map[string]string{"a": "b"}
		}},
		{name: "what others own", live: others, want: others},
		{name: "immutable", live: immutable, want: immutable,
			immutable: []string{"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			desired := render(t, "Mooncake", request(func(r *Request) { r.Kind = "StatefulSet" }))
			live, want := desired.StatefulSet.DeepCopy(), desired.StatefulSet.DeepCopy()
			tt.live(live)
			if tt.want != nil {
				tt.want(want)
			}
			mutated, immutable := MutateStatefulSet(live, desired)
			// Comparing these would take for ever.
			check(t, "claims", len(mutated.Spec.VolumeClaimTemplates), len(want.Spec.VolumeClaimTemplates))
			mutated.Spec.VolumeClaimTemplates, want.Spec.VolumeClaimTemplates = nil, nil
			check(t, "mutated", mutated, want)
			check(t, "immutable", immutable, tt.immutable)
		})
	}
}
