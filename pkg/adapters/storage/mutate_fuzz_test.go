// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// The fuzz targets take any live object and any of our own as the desired one. The result
// must be what is desired as far as it is ours, and the live object as far as it is not.

// longExponent finds quantities that resource.Quantity itself cannot cope with.
var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

func decodeLive(t *testing.T, text []byte, live any) bool {
	t.Helper()
	return !longExponent.Match(text) && json.Unmarshal(text, live) == nil
}

// desiredBy returns one of many renderings.
func desiredBy(t testing.TB, choice uint8) *Rendered {
	t.Helper()
	names := Names()
	bit := func(n int) bool { return choice>>n&1 == 1 }
	return render(t, names[int(choice>>5)%len(names)], request(func(r *Request) {
		if bit(0) {
			r.Kind = "StatefulSet"
		}
		if bit(1) {
			r.Autoscaling = &Autoscaling{MaxReplicas: 2}
		}
		if bit(2) {
			r.Template = fullTemplate()
		}
		if bit(3) {
			r.Usage = Usage{Runtime: "SGLang"}
		}
		if bit(4) {
			r.Replicas = new(int32(3))
		}
	}))
}

// checkMutation checks what holds for every kind.
func checkMutation[T interface {
	*appsv1.Deployment | *appsv1.StatefulSet | *corev1.Service | *autoscalingv2.HorizontalPodAutoscaler
	metav1.Object
	runtime.Object
}](t *testing.T, live, desired T, mutate func(live T) (T, []string)) {
	t.Helper()
	before := live.DeepCopyObject()
	once, immutable := mutate(live)
	if !reflect.DeepEqual(before, any(live)) {
		t.Error("the live object was changed")
	}
	twice, immutableTwice := mutate(once)
	if !reflect.DeepEqual(once, twice) || !slices.Equal(immutable, immutableTwice) {
		t.Errorf("a second time changes something, or the verdict from %v to %v", immutable, immutableTwice)
	}
	wantLabels := maps.Clone(live.GetLabels())
	delete(wantLabels, LabelBackendType)
	if wantLabels == nil {
		wantLabels = map[string]string{}
	}
	maps.Copy(wantLabels, desired.GetLabels())
	if diff := cmp.Diff(wantLabels, once.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(live.GetAnnotations(), once.GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	checkOwners(t, live.GetOwnerReferences(), once.GetOwnerReferences())
	// Labels and owners apart, metadata is that of the live object.
	once.SetLabels(live.GetLabels())
	once.SetOwnerReferences(live.GetOwnerReferences())
	if !reflect.DeepEqual(metaOf(once), metaOf(live)) {
		t.Errorf("metadata became %v", metaOf(once))
	}
}

func metaOf(object metav1.Object) *metav1.ObjectMeta {
	return object.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

func checkOwners(t *testing.T, live, mutated []metav1.OwnerReference) {
	t.Helper()
	foreign := func(owners []metav1.OwnerReference) []metav1.OwnerReference {
		return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.UID == backendUID })
	}
	if before, after := foreign(live), foreign(mutated); len(before)+len(after) > 0 && !reflect.DeepEqual(before, after) {
		t.Errorf("owners became %v, they were %v", after, before)
	}
	controlled := slices.ContainsFunc(foreign(live), func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
	ours := slices.ContainsFunc(mutated, func(o metav1.OwnerReference) bool {
		return o.UID == backendUID && o.Controller != nil && *o.Controller
	})
	if !controlled && !ours {
		t.Errorf("nobody controls the object: %v", mutated)
	}
}

// checkPod compares what is ours of a pod template, and what is not.
func checkPod(t *testing.T, live, mutated, desired *corev1.PodTemplateSpec) {
	t.Helper()
	if !reflect.DeepEqual(live.ObjectMeta, mutated.ObjectMeta) {
		t.Errorf("metadata of the template became %v", mutated.ObjectMeta)
	}
	if !reflect.DeepEqual(live.Spec.InitContainers, mutated.Spec.InitContainers) {
		t.Error("init containers were changed")
	}
	if len(mutated.Spec.Containers) != 1 {
		t.Fatalf("there are %d containers", len(mutated.Spec.Containers))
	}
	// A container that was there keeps these.
	got, want := mutated.Spec.Containers[0].DeepCopy(), desired.Spec.Containers[0].DeepCopy()
	for _, container := range []*corev1.Container{got, want} {
		*container = corev1.Container{
			Name: container.Name, Image: container.Image, ImagePullPolicy: container.ImagePullPolicy,
			Command: container.Command, Args: container.Args, Env: container.Env, Ports: container.Ports,
			Resources: container.Resources, VolumeMounts: container.VolumeMounts,
			LivenessProbe: container.LivenessProbe, ReadinessProbe: container.ReadinessProbe, StartupProbe: container.StartupProbe,
		}
	}
	check(t, "container", got, want)
	overridable := func(spec *corev1.PodSpec) *corev1.PodSpec {
		only := &corev1.PodSpec{Volumes: spec.Volumes, HostNetwork: spec.HostNetwork, DNSPolicy: spec.DNSPolicy}
		copyOverridable(only, spec)
		return only
	}
	check(t, "pod", overridable(&mutated.Spec), overridable(&desired.Spec))
	check(t, "alias", mutated.Spec.DeprecatedServiceAccount, desired.Spec.ServiceAccountName)
}

func FuzzMutateDeployment(f *testing.F) {
	addSeeds(f, func(r *Rendered) any { return r.Deployment })
	f.Fuzz(func(t *testing.T, text []byte, choice uint8) {
		var live appsv1.Deployment
		if decodeLive(t, text, &live) {
			checkDeployment(t, &live, desiredBy(t, choice&^1))
		}
	})
}

func checkDeployment(t *testing.T, live *appsv1.Deployment, desired *Rendered) {
	t.Helper()
	checkMutation(t, live, desired.Deployment, func(live *appsv1.Deployment) (*appsv1.Deployment, []string) {
		return MutateDeployment(live, desired)
	})
	mutated, _ := MutateDeployment(live, desired)
	checkPod(t, &live.Spec.Template, &mutated.Spec.Template, &desired.Deployment.Spec.Template)
	check(t, "replicas", *mutated.Spec.Replicas, desired.Replicas.OnUpdate(live.Spec.Replicas))
	check(t, "strategy", mutated.Spec.Strategy.Type, desired.Deployment.Spec.Strategy.Type)
	if !reflect.DeepEqual(mutated.Spec.Selector, live.Spec.Selector) || !reflect.DeepEqual(mutated.Status, live.Status) {
		t.Errorf("selector or status were changed: %v", mutated)
	}
}

func FuzzMutateStatefulSet(f *testing.F) {
	addSeeds(f, func(r *Rendered) any { return r.StatefulSet })
	f.Fuzz(func(t *testing.T, text []byte, choice uint8) {
		var live appsv1.StatefulSet
		if decodeLive(t, text, &live) {
			checkStatefulSet(t, &live, desiredBy(t, choice|1))
		}
	})
}

func checkStatefulSet(t *testing.T, live *appsv1.StatefulSet, desired *Rendered) {
	t.Helper()
	checkMutation(t, live, desired.StatefulSet, func(live *appsv1.StatefulSet) (*appsv1.StatefulSet, []string) {
		return MutateStatefulSet(live, desired)
	})
	mutated, immutable := MutateStatefulSet(live, desired)
	checkPod(t, &live.Spec.Template, &mutated.Spec.Template, &desired.StatefulSet.Spec.Template)
	check(t, "replicas", *mutated.Spec.Replicas, desired.Replicas.OnUpdate(live.Spec.Replicas))
	check(t, "strategy", mutated.Spec.UpdateStrategy.Type, desired.StatefulSet.Spec.UpdateStrategy.Type)
	if immutable == nil != (apiequality.Semantic.DeepEqual(live.Spec.Selector, desired.StatefulSet.Spec.Selector) &&
		live.Spec.ServiceName == "cache" && live.Spec.PodManagementPolicy == "Parallel" && len(live.Spec.VolumeClaimTemplates) == 0) {
		t.Errorf("immutable are %v", immutable)
	}
}

func FuzzMutateService(f *testing.F) {
	addSeeds(f, func(r *Rendered) any { return r.Service })
	f.Fuzz(func(t *testing.T, text []byte, choice uint8) {
		var live corev1.Service
		if decodeLive(t, text, &live) {
			checkService(t, &live, desiredBy(t, choice))
		}
	})
}

func checkService(t *testing.T, live *corev1.Service, desired *Rendered) {
	t.Helper()
	checkMutation(t, live, desired.Service, func(live *corev1.Service) (*corev1.Service, []string) {
		return MutateService(live, desired)
	})
	mutated, _ := MutateService(live, desired)
	check(t, "type", mutated.Spec.Type, desired.Service.Spec.Type)
	check(t, "ports", mutated.Spec.Ports, desired.Service.Spec.Ports)
	check(t, "selector", mutated.Spec.Selector, desired.Service.Spec.Selector)
	check(t, "address", mutated.Spec.ClusterIP, live.Spec.ClusterIP)
	check(t, "addresses", mutated.Spec.ClusterIPs, live.Spec.ClusterIPs)
}

func FuzzMutateHPA(f *testing.F) {
	addSeeds(f, func(r *Rendered) any { return r.HPA })
	f.Fuzz(func(t *testing.T, text []byte, choice uint8) {
		var live autoscalingv2.HorizontalPodAutoscaler
		if decodeLive(t, text, &live) {
			checkHPA(t, &live, autoscaledBy(t, choice))
		}
	})
}

// autoscaledBy returns one of the renderings with an autoscaler.
func autoscaledBy(t testing.TB, choice uint8) *Rendered {
	t.Helper()
	const lmCacheServer = 1 << 5
	return desiredBy(t, choice&0b11111|lmCacheServer|2)
}

func checkHPA(t *testing.T, live *autoscalingv2.HorizontalPodAutoscaler, desired *Rendered) {
	t.Helper()
	mutate := func(live *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv2.HorizontalPodAutoscaler, []string) {
		return MutateHPA(live, desired), nil
	}
	checkMutation(t, live, desired.HPA, mutate)
	mutated, _ := mutate(live)
	check(t, "spec", mutated.Spec, desired.HPA.Spec)
}

func addSeeds(f *testing.F, object func(*Rendered) any) {
	f.Helper()
	for choice := range uint8(255) {
		value := object(desiredBy(f, choice))
		if reflect.ValueOf(value).IsNil() || choice%8 > 3 {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, choice+32)
	}
	f.Add([]byte("{}"), uint8(0))
}

// TestMutateAnything does the same with live objects that have every field set.
func TestMutateAnything(t *testing.T) {
	t.Parallel()
	for seed := range int64(150) {
		filler := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3)
		choice := uint8(seed * 37)
		deployment, statefulSet := &appsv1.Deployment{}, &appsv1.StatefulSet{}
		service, hpa := &corev1.Service{}, &autoscalingv2.HorizontalPodAutoscaler{}
		filler.Fill(deployment)
		filler.Fill(statefulSet)
		filler.Fill(service)
		filler.Fill(hpa)
		checkDeployment(t, deployment, desiredBy(t, choice&^1))
		checkStatefulSet(t, statefulSet, desiredBy(t, choice|1))
		checkService(t, service, desiredBy(t, choice))
		checkHPA(t, hpa, autoscaledBy(t, choice))
	}
}
