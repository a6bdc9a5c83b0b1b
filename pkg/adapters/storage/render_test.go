// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, statefulSet := range map[v1alpha1.DeploymentKind]bool{
		"Deployment": false, "StatefulSet": true,
		// Older objects may have these.
		"": false, "DaemonSet": false,
	} {
		rendered := render(t, "LMCacheServer", request(func(r *Request) {
			r.Kind = kind
			r.Autoscaling = &Autoscaling{MaxReplicas: 2}
		}))
		if got := rendered.StatefulSet != nil; got != statefulSet || got == (rendered.Deployment != nil) {
			t.Errorf("kind %q: StatefulSet is %v", kind, got)
		}
		want := "Deployment"
		if statefulSet {
			want = "StatefulSet"
		}
		if got := rendered.HPA.Spec.ScaleTargetRef.Kind; got != want {
			t.Errorf("kind %q: the target of the autoscaler is a %s", kind, got)
		}
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	selector := map[string]string{
		"app.kubernetes.io/name":       "cachebackend",
		"app.kubernetes.io/instance":   "cache",
		"app.kubernetes.io/managed-by": "inference-cache-controller",
	}
	check(t, "selector", SelectorLabels("cache"), selector)
	for cacheType, label := range map[v1alpha1.CacheType]string{"LMCache": "LMCache", "": ""} {
		all := maps.Clone(selector)
		if label != "" {
			all["inferencecache.io/backend-type"] = label
		}
		for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
			rendered := render(t, "LMCacheServer", request(func(r *Request) {
				r.Usage.Type = cacheType
				r.Kind = kind
				r.Autoscaling = &Autoscaling{MaxReplicas: 2}
			}))
			check(t, "pods", template(rendered).Labels, all)
			for _, meta := range metas(rendered) {
				check(t, "labels", meta.Labels, all)
				check(t, "name", meta.Namespace+"/"+meta.Name, "ns1/cache")
				if owner := metav1.GetControllerOf(meta); owner == nil || owner.UID != backendUID {
					t.Errorf("the controller is %v", owner)
				}
			}
			check(t, "selector of the Service", rendered.Service.Spec.Selector, selector)
		}
	}
}

func metas(rendered *Rendered) []*metav1.ObjectMeta {
	metas := []*metav1.ObjectMeta{&rendered.Service.ObjectMeta}
	if rendered.Deployment != nil {
		metas = append(metas, &rendered.Deployment.ObjectMeta)
	}
	if rendered.StatefulSet != nil {
		metas = append(metas, &rendered.StatefulSet.ObjectMeta)
	}
	if rendered.HPA != nil {
		metas = append(metas, &rendered.HPA.ObjectMeta)
	}
	return metas
}

func TestServer(t *testing.T) {
	t.Parallel()
	command := []string{"a", "b", "c"}
	tests := []struct {
		name     string
		provider v1alpha1.StorageProvider
		server   Server
		command  []string
		args     []string
		image    string
	}{
		{name: "own command", provider: "LMCacheServer", server: Server{Command: command},
			command: []string{"a"}, args: []string{"b", "c"}, image: lmCacheServerImage},
		{name: "own command without arguments", provider: "Mooncake", server: Server{Command: command[:1]},
			command: []string{"a"}, args: nil, image: mooncakeImage},
		{name: "empty command", provider: "LMCacheServer", server: Server{Command: []string{}},
			command: []string{"lmcache_server"}, args: []string{"0.0.0.0", "65432", "cpu"}, image: lmCacheServerImage},
		{name: "own image", provider: "LMCacheServer", server: Server{Image: "x:1"},
			command: []string{"lmcache_server"}, args: []string{"0.0.0.0", "65432", "cpu"}, image: "x:1"},
		{name: "Redis offers no command", provider: "Redis", server: Server{Image: "x:latest", Command: command},
			command: nil, args: []string{"redis-server", "--save", "", "--appendonly", "no", "--protected-mode", "no",
				"--maxmemory", "6871947674", "--maxmemory-policy", "allkeys-lru"}, image: "x:latest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plain := template(render(t, tt.provider, request(nil))).Spec.Containers[0]
			container := template(render(t, tt.provider, request(func(r *Request) { r.Server = tt.server }))).Spec.Containers[0]
			check(t, "command", container.Command, tt.command)
			if !slices.Equal(container.Args, tt.args) {
				t.Errorf("arguments are %q, want %q", container.Args, tt.args)
			}
			check(t, "image", container.Image, tt.image)
			container.Command, container.Args, container.Image = plain.Command, plain.Args, plain.Image
			check(t, "everything else", container, plain)
		})
	}
}

func TestHostNetwork(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		host := name == "Mooncake"
		deployment := render(t, name, request(nil))
		statefulSet := render(t, name, request(func(r *Request) { r.Kind = "StatefulSet" }))
		for _, rendered := range []*Rendered{deployment, statefulSet} {
			spec := template(rendered).Spec
			if spec.HostNetwork != host || (spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet) != host {
				t.Errorf("%s: host network is %v with DNS policy %s", name, spec.HostNetwork, spec.DNSPolicy)
			}
			if got := rendered.Service.Spec.ClusterIP == corev1.ClusterIPNone; got != host {
				t.Errorf("%s: headless is %v", name, got)
			}
		}
		if got := deployment.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType; got != host {
			t.Errorf("%s: strategy is %v", name, deployment.Deployment.Spec.Strategy)
		}
	}
}

// TestEveryProvider holds for providers to come too.
func TestEveryProvider(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		rendered := render(t, name, request(nil))
		spec := template(rendered).Spec
		if len(spec.Containers) != 1 || len(spec.InitContainers)+len(spec.Volumes) != 0 || len(template(rendered).Annotations) != 0 {
			t.Fatalf("%s: pods are more than one container: %v", name, template(rendered))
		}
		container := spec.Containers[0]
		ports := map[string]int32{}
		for _, port := range container.Ports {
			if problems := validation.IsValidPortName(port.Name); len(problems) > 0 {
				t.Errorf("%s: port %s: %v", name, port.Name, problems)
			}
			ports[port.Name] = port.ContainerPort
		}
		if len(ports) != len(container.Ports) {
			t.Errorf("%s: names of ports are not unique: %v", name, container.Ports)
		}
		for _, port := range rendered.Service.Spec.Ports {
			if ports[port.TargetPort.StrVal] != port.Port {
				t.Errorf("%s: port %s of the Service is no port of the container", name, port.Name)
			}
		}
		if first := rendered.Service.Spec.Ports[0].TargetPort; container.ReadinessProbe.TCPSocket.Port != first {
			t.Errorf("%s: the endpoint is %s, and %v is probed", name, first.StrVal, container.ReadinessProbe.TCPSocket.Port)
		}
		if strings.HasSuffix(container.Image, ":latest") || !strings.Contains(container.Image, ":") {
			t.Errorf("%s: the image %s is not pinned", name, container.Image)
		}
		if container.LivenessProbe != nil || container.StartupProbe != nil || container.SecurityContext != nil || container.Env != nil {
			t.Errorf("%s: the container has more than it should: %v", name, container)
		}
	}
}

// TestNothingIsShared matters as requests are made of objects in a cache.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		asked := request(func(r *Request) {
			r.Replicas = new(int32(2))
			r.Autoscaling = &Autoscaling{MinReplicas: new(int32(1)), MaxReplicas: 3, TargetCPUUtilizationPercent: new(int32(5))}
			r.Server = Server{Command: []string{"a", "b"}, Resources: requirements(nil, map[corev1.ResourceName]string{"cpu": "1", "memory": "1n"})}
			r.Template = fullTemplate()
		})
		before := encode(t, asked)
		rendered := render(t, name, asked)
		if after := encode(t, asked); after != before {
			t.Errorf("%s: rendering changed the request from\n%s\nto\n%s", name, before, after)
		}
		spec := &template(rendered).Spec
		spec.NodeSelector["disk"] = "changed"
		spec.Affinity.NodeAffinity = nil
		spec.Tolerations[0].Key = "changed"
		spec.TopologySpreadConstraints[0].MaxSkew = 7
		spec.ImagePullSecrets[0].Name = "changed"
		*spec.SecurityContext.FSGroup = 7
		*spec.RuntimeClassName = "changed"
		*spec.TerminationGracePeriodSeconds = 7
		spec.Containers[0].Args[0] = "changed"
		delete(spec.Containers[0].Resources.Limits, "cpu")
		rendered.Service.Spec.Selector[LabelName] = "changed"
		template(rendered).Labels[LabelName] = "changed"
		*rendered.Service.OwnerReferences[0].Controller = false
		if after := encode(t, asked); after != before {
			t.Errorf("%s: changing the result changed the request from\n%s\nto\n%s", name, before, after)
		}
		check(t, "labels", rendered.Deployment.Spec.Selector.MatchLabels, SelectorLabels("cache"))
		check(t, "controller", *rendered.Deployment.OwnerReferences[0].Controller, true)
	}
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
