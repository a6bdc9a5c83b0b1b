// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// TestFirstPass is about what the first pass over a backend leaves, before any pod of it can have started.
func TestFirstPass(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	h := s.record()
	s.create(provider(v1alpha1.StorageProviderRedis))
	s.waitBackendReady()
	s.expect(h, "", rollingOut, up)
	stored := h.all()
	first := stored[slices.IndexFunc(stored, func(b *v1alpha1.CacheBackend) bool { return state(b) == rollingOut })]
	if got, want := message(first, v1alpha1.ConditionReady), "0/1 replicas updated."; got != want {
		t.Errorf("the first pass says %q, want %q", got, want)
	}
	status := first.Status
	if want := fmt.Sprintf("cache.%s.svc.cluster.local:6379", s.namespace); status.Endpoint != want {
		t.Errorf("the endpoint is %q, want %q", status.Endpoint, want)
	}
	if status.ObservedGeneration != 1 || status.FailOpen == nil || !*status.FailOpen || status.FirstAvailableAt != nil {
		t.Errorf("the status is %+v", status)
	}
	s.endsWithEvents()
}

func TestRenderedServers(t *testing.T) {
	t.Parallel()
	const defaultMemory = "6871947674"
	redis := func(changes ...change) []change {
		return append([]change{provider(v1alpha1.StorageProviderRedis)}, changes...)
	}
	redisArgs := func(memory string) []string {
		return []string{"redis-server", "--save", "", "--appendonly", "no", "--protected-mode", "no",
			"--maxmemory", memory, "--maxmemory-policy", "allkeys-lru"}
	}
	lmCacheArgs := []string{"0.0.0.0", "65432", "cpu"}
	defaults := corev1.ResourceRequirements{Requests: resources("memory", "4Gi"), Limits: resources("memory", "8Gi")}
	tests := []struct {
		name      string
		changes   []change
		command   []string
		args      []string
		resources corev1.ResourceRequirements
		port      string
	}{
		{name: "Redis", changes: redis(), args: redisArgs(defaultMemory), resources: defaults, port: "redis"},
		{name: "Redis with memory of its own", changes: redis(serverResources(corev1.ResourceRequirements{
			Requests: resources("memory", "2Gi"), Limits: resources("memory", "4Gi"),
		})), args: redisArgs("3435973837"), port: "redis",
			resources: corev1.ResourceRequirements{Requests: resources("memory", "2Gi"), Limits: resources("memory", "4Gi")}},
		{name: "Redis with empty resources", changes: redis(serverResources(corev1.ResourceRequirements{})),
			args: redisArgs(defaultMemory), port: "redis"},
		{name: "LMCacheServer with another command", changes: []change{func(b *v1alpha1.CacheBackend) {
			b.Spec.RemoteStorage.LMCacheServer = &v1alpha1.LMCacheServerSpec{Command: []string{"a", "b", "c"}}
		}}, command: []string{"a"}, args: []string{"b", "c"}, resources: defaults, port: "lmcache"},
		{name: "autoscaled without CPU", changes: []change{autoscaled(1, 2), serverResources(corev1.ResourceRequirements{})},
			command: []string{"lmcache_server"}, args: lmCacheArgs, port: "lmcache",
			resources: corev1.ResourceRequirements{Requests: resources("cpu", "250m")}},
		{name: "autoscaled with a CPU request of zero", port: "lmcache",
			changes: []change{autoscaled(1, 2), serverResources(corev1.ResourceRequirements{Requests: resources("cpu", "0")})},
			command: []string{"lmcache_server"}, args: lmCacheArgs,
			resources: corev1.ResourceRequirements{Requests: resources("cpu", "250m")}},
		{name: "autoscaled with a CPU request", port: "lmcache",
			changes: []change{autoscaled(1, 2), serverResources(corev1.ResourceRequirements{Requests: resources("cpu", "1")})},
			command: []string{"lmcache_server"}, args: lmCacheArgs,
			resources: corev1.ResourceRequirements{Requests: resources("cpu", "1")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := create(t, tt.changes...)
			s.waitBackendReady()
			pod := s.object("Deployment").(*appsv1.Deployment).Spec.Template.Spec
			if len(pod.Containers) != 1 {
				t.Fatalf("the containers are %+v", pod.Containers)
			}
			container := pod.Containers[0]
			if !slices.Equal(container.Command, tt.command) || !slices.Equal(container.Args, tt.args) {
				t.Errorf("it runs %q %q, want %q %q", container.Command, container.Args, tt.command, tt.args)
			}
			if !apiequality.Semantic.DeepEqual(container.Resources, tt.resources) {
				t.Errorf("the resources are %v, want %v", container.Resources, tt.resources)
			}
			if probe := container.ReadinessProbe; probe == nil || probe.TCPSocket == nil || probe.TCPSocket.Port.StrVal != tt.port {
				t.Errorf("the readiness probe is %+v", probe)
			}
			if len(container.Ports) != 1 || container.Ports[0].Name != tt.port {
				t.Errorf("the ports are %+v", container.Ports)
			}
		})
	}
}

func resources(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

// serverResources sets the resources of the provider that is selected.
func serverResources(resources corev1.ResourceRequirements) change {
	return func(b *v1alpha1.CacheBackend) {
		if remote := b.Spec.RemoteStorage; remote.Provider == v1alpha1.StorageProviderRedis {
			remote.Redis = &v1alpha1.RedisSpec{Resources: &resources}
		} else {
			remote.LMCacheServer = &v1alpha1.LMCacheServerSpec{Resources: &resources}
		}
	}
}

// TestMooncakeIsOnTheNetworkOfItsNode: clients must reach its pod itself, and two of it do not fit on a node.
func TestMooncakeIsOnTheNetworkOfItsNode(t *testing.T) {
	t.Parallel()
	s := create(t, provider(v1alpha1.StorageProviderMooncake))
	s.waitBackendReady()
	spec := s.object("Deployment").(*appsv1.Deployment).Spec
	pod := spec.Template.Spec
	if !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet || spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("host network %t, DNS policy %s, strategy %s", pod.HostNetwork, pod.DNSPolicy, spec.Strategy.Type)
	}
	ports := map[string]int32{}
	for _, port := range pod.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	if want := map[string]int32{"mooncake-rpc": 50051, "mooncake-meta": 8080, "metrics": 9003}; !reflect.DeepEqual(ports, want) {
		t.Errorf("the container's ports are %v, want %v", ports, want)
	}
	service := s.object("Service").(*corev1.Service).Spec
	if service.ClusterIP != corev1.ClusterIPNone || len(service.Ports) != 2 || service.Ports[0].Port != 50051 || service.Ports[1].Port != 8080 {
		t.Errorf("the Service is %+v", service)
	}
}

// TestTiers checks that every provider starts as either kind.
func TestTiers(t *testing.T) {
	t.Parallel()
	ports := map[v1alpha1.StorageProvider]int{"LMCacheServer": 65432, "Redis": 6379, "Mooncake": 50051}
	for name, port := range ports {
		for _, kind := range []v1alpha1.DeploymentKind{"Deployment", "StatefulSet"} {
			t.Run(fmt.Sprintf("%s in a %s", name, kind), func(t *testing.T) {
				t.Parallel()
				s := create(t, provider(name), deploymentKind(kind))
				backend := s.waitBackendReady()
				s.waitObjects(string(kind), "Service")
				if want := fmt.Sprintf("cache.%s.svc.cluster.local:%d", s.namespace, port); backend.Status.Endpoint != want {
					t.Errorf("the endpoint is %q, want %q", backend.Status.Endpoint, want)
				}
				for _, kind := range []string{string(kind), "Service"} {
					if owner := metav1.GetControllerOf(s.object(kind)); owner == nil || owner.UID != backend.UID {
						t.Errorf("the controller of the %s is %v", kind, owner)
					}
				}
				s.waitEvents()
			})
		}
	}
}

// endsWithEvents expects that no other events than these were ever told about the backend. One that should not have been
// told may still be on its way, so another one is sent after it.
func (s *subject) endsWithEvents(reasons ...string) {
	s.Helper()
	s.edit(failOpenIs(false))
	eventually(s.T, "the generation is observed", func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && backend.Status.ObservedGeneration != backend.Generation {
			err = fmt.Errorf("generation %d is", backend.Status.ObservedGeneration)
		}
		return err
	})
	s.waitEvents(append(reasons, v1alpha1.EventFailClosedEnabled)...)
}

func failOpenIs(value bool) change {
	return func(b *v1alpha1.CacheBackend) {
		if b.Spec.Integration == nil {
			b.Spec.Integration = &v1alpha1.IntegrationSpec{}
		}
		b.Spec.Integration.FailOpen = &value
	}
}
