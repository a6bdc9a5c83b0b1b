// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func hostOnly(b *v1alpha1.CacheBackend) { b.Spec.RemoteStorage = nil }

func eventsOnly(b *v1alpha1.CacheBackend) {
	b.Spec.RemoteStorage = nil
	b.Spec.Integration = &v1alpha1.IntegrationSpec{Mode: v1alpha1.IntegrationModeEventsOnly}
}

func hiCache(b *v1alpha1.CacheBackend) {
	b.Spec.Runtime, b.Spec.Type, b.Spec.RemoteStorage = v1alpha1.RuntimeSGLang, v1alpha1.CacheTypeSGLangHiCache, nil
	b.Spec.HiCache = &v1alpha1.HiCacheSpec{SizeGB: new(int32(8))}
	b.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: map[string]string{"serve": "atlas"}}
}

// external is a change to a tier that somebody else runs. Redis is for SGLang.
func external(provider v1alpha1.StorageProvider, endpoint string) change {
	return func(b *v1alpha1.CacheBackend) {
		if provider == v1alpha1.StorageProviderRedis {
			b.Spec.Runtime = v1alpha1.RuntimeSGLang
		}
		b.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{
			Provider: provider, Ownership: v1alpha1.StorageOwnershipExternal, Endpoint: endpoint,
		}
	}
}

// waitWithoutTier waits until the present generation is observed, nothing runs for it, and the conditions are exactly
// these.
func (s *subject) waitWithoutTier(want string) *v1alpha1.CacheBackend {
	s.Helper()
	s.waitObjects()
	backend := s.waitState(want)
	if got, want := len(backend.Status.Conditions), len(strings.Fields(want)); got != want {
		s.Errorf("there are %d conditions, want %d: %+v", got, want, backend.Status.Conditions)
	}
	return backend
}

const accepted = "Ready=True/ExternalEndpointAccepted Progressing=False/ExternalEndpointAccepted"

func TestExternal(t *testing.T) {
	t.Parallel()
	s := create(t, external(v1alpha1.StorageProviderLMCacheServer, " lm://h:8200 "))
	if got := s.waitWithoutTier(accepted).Status.Endpoint; got != "lm://h:8200" {
		t.Errorf("the endpoint is %q", got)
	}
	s.endsWithEvents()
}

// TestStoredExternal: endpoints that are refused today may be stored. The backend says what is wrong with them.
func TestStoredExternal(t *testing.T) {
	t.Parallel()
	const (
		invalid = "Ready=False/ExternalEndpointInvalid Progressing=False/ExternalEndpointInvalid"
		missing = "Ready=False/ExternalEndpointMissing Progressing=False/ExternalEndpointMissing"
	)
	tests := []struct {
		name     string
		provider v1alpha1.StorageProvider
		endpoint string
		status   string
		state    string
	}{
		{"without a port", v1alpha1.StorageProviderLMCacheServer, "h", "h", invalid},
		{"blank", v1alpha1.StorageProviderLMCacheServer, "  ", "", missing},
		{"with the scheme of another provider", v1alpha1.StorageProviderRedis, "lm://h:1", "lm://h:1", invalid},
		{"good", v1alpha1.StorageProviderRedis, "h:6379", "h:6379", accepted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := create(t, external(v1alpha1.StorageProviderLMCacheServer, "lm://before:1"))
			s.waitState(accepted)
			s.store(external(tt.provider, tt.endpoint))
			backend := s.waitWithoutTier(tt.state)
			if backend.Status.Endpoint != tt.status {
				t.Errorf("the endpoint is %q, want %q", backend.Status.Endpoint, tt.status)
			}
			if got := message(backend, v1alpha1.ConditionReady); tt.state == invalid && !strings.Contains(got, "spec.remoteStorage.endpoint") {
				t.Errorf("the message does not name the field: %q", got)
			}
		})
	}
}

// TestToExternal: of what was observed of the tier nothing stays, but that engines have ever sent events.
func TestToExternal(t *testing.T) {
	t.Parallel()
	s := create(t, waitsForKVEvents)
	s.waitState(awaiting)
	s.seesKVEvent()
	latch := s.waitState(working).Status.FirstKVEventObservedAt
	// Everything a tier can have said of it, in one write with the change.
	s.store(external(v1alpha1.StorageProviderLMCacheServer, "lm://h:8200"), func(b *v1alpha1.CacheBackend) {
		b.Status.ObservedServerInstance = "4b0c7a7e-6a0f-4f6b-9d4c-0f3f5a1f2c11:0"
		for _, conditionType := range []string{
			v1alpha1.ConditionFunctionalProbeOK, v1alpha1.ConditionT2Degraded,
			v1alpha1.ConditionEngineKernelsHealthy, v1alpha1.ConditionEngineCompatibility,
		} {
			b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{
				Type: conditionType, Status: metav1.ConditionTrue, Reason: "AsBefore", LastTransitionTime: metav1.Now(),
			})
		}
	})
	status := s.waitWithoutTier(accepted).Status
	if status.ObservedServerInstance != "" || status.FirstAvailableAt != nil || !status.FirstKVEventObservedAt.Equal(latch) {
		t.Errorf("the status is %+v", status)
	}
}

// TestSilentToEventsOnly: the time for the first KV event starts again where there was a tier before.
func TestSilentToEventsOnly(t *testing.T) {
	t.Parallel()
	s := create(t, waitsForKVEvents, firstEventTimeout(time.Minute))
	s.waitState(awaiting)
	before := metav1.NewTime(time.Now().Add(-10 * time.Minute))
	s.patchStatus(map[string]any{"firstAvailableAt": before})
	s.waitState(silent)
	s.edit(eventsOnly, firstEventTimeout(time.Hour))
	status := s.waitWithoutTier(awaiting).Status
	if status.Endpoint != "" || status.FirstAvailableAt == nil || !status.FirstAvailableAt.After(before.Add(time.Minute)) {
		t.Errorf("the status is %+v", status)
	}
}

func TestWithoutTier(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		changes []change
		reason  string
	}{
		{"events only", []change{eventsOnly}, v1alpha1.ReasonEventsOnlyActive},
		{"host-only", []change{hostOnly}, v1alpha1.ReasonHostOnlyActive},
		{"host-only with a kind", []change{hostOnly, deploymentKind("StatefulSet")}, v1alpha1.ReasonHostOnlyActive},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := create(t, tt.changes...)
			status := s.waitWithoutTier("Ready=True/" + tt.reason + " Progressing=False/Synced Degraded=False/NotDegraded").Status
			if status.Endpoint != "" || status.FirstAvailableAt == nil {
				t.Errorf("the status is %+v", status)
			}
			s.endsWithEvents()
		})
	}
}

// TestToNothingToReport: of HiCache nothing can be said, and a pair that is not supported is refused today.
func TestToNothingToReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		flip func(*subject)
	}{
		{"HiCache", func(s *subject) { s.edit(hiCache) }},
		{"stored pair that is not supported", func(s *subject) {
			s.store(func(b *v1alpha1.CacheBackend) { b.Spec.RemoteStorage = managed(v1alpha1.StorageProviderRedis) })
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := create(t)
			s.waitBackendReady()
			tt.flip(s)
			status := s.waitWithoutTier("").Status
			if status.Endpoint != "" || status.FirstAvailableAt != nil {
				t.Errorf("the status is %+v", status)
			}
		})
	}
}

// TestStoredEventsOnlyWithTier: a tier beside the mode EventsOnly is refused today, and counts for nothing.
func TestStoredEventsOnlyWithTier(t *testing.T) {
	t.Parallel()
	s := create(t, eventsOnly, waitsForKVEvents)
	s.waitWithoutTier(awaiting)
	h := s.record()
	s.store(external(v1alpha1.StorageProviderLMCacheServer, "lm://h:1"))
	if got := s.waitWithoutTier(awaiting).Status.Endpoint; got != "" {
		t.Errorf("the endpoint is %q", got)
	}
	s.expect(h, awaiting)
}

func TestLeavingManaged(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		change   change
		reason   string
		endpoint string
	}{
		{name: "external", change: external(v1alpha1.StorageProviderLMCacheServer, "lm://cache.example.com:8200"),
			reason: v1alpha1.ReasonExternalEndpointAccepted, endpoint: "lm://cache.example.com:8200"},
		{name: "host-only", change: hostOnly, reason: v1alpha1.ReasonHostOnlyActive},
		{name: "events only", change: eventsOnly, reason: v1alpha1.ReasonEventsOnlyActive},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := create(t, autoscaled(1, 2))
			s.waitBackendReady()
			s.waitObjects("Deployment", "Service", "HorizontalPodAutoscaler")
			s.edit(tt.change, func(b *v1alpha1.CacheBackend) { b.Spec.Autoscaling = nil })
			s.waitObjects()
			if status := s.waitReady(metav1.ConditionTrue, tt.reason).Status; status.Endpoint != tt.endpoint {
				t.Errorf("the endpoint is %q, want %q", status.Endpoint, tt.endpoint)
			}
			s.edit(provider(v1alpha1.StorageProviderLMCacheServer), func(b *v1alpha1.CacheBackend) { b.Spec.Integration = nil })
			s.waitBackendReady()
			s.waitObjects("Deployment", "Service")
		})
	}
}

// TestChangeOfKind: in the end there is exactly one workload.
func TestChangeOfKind(t *testing.T) {
	t.Parallel()
	for _, name := range []v1alpha1.StorageProvider{"LMCacheServer", "Mooncake"} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			s := create(t, provider(name))
			first := s.waitBackendReady().Status.FirstAvailableAt
			s.edit(deploymentKind("StatefulSet"))
			s.waitObjects("StatefulSet", "Service")
			s.waitBackendReady()
			s.edit(deploymentKind("Deployment"))
			s.waitObjects("Deployment", "Service")
			if again := s.waitBackendReady().Status.FirstAvailableAt; !first.Equal(again) {
				t.Errorf("the backend is available since %s, not %s", again, first)
			}
			s.waitEvents()
		})
	}
}

func TestChangeOfProvider(t *testing.T) {
	t.Parallel()
	s := create(t)
	s.waitBackendReady()
	uid := s.object("Deployment").GetUID()
	for _, name := range []v1alpha1.StorageProvider{"Mooncake", "LMCacheServer"} {
		headless := name == v1alpha1.StorageProviderMooncake
		s.edit(provider(name))
		eventually(t, "the Service is that of "+string(name), func(ctx context.Context) error {
			service, err := env.kube.CoreV1().Services(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
			if err == nil && (service.Spec.ClusterIP == "None") != headless {
				err = fmt.Errorf("its address is %s", service.Spec.ClusterIP)
			}
			return err
		})
		s.waitBackendReady()
	}
	if s.object("Deployment").GetUID() != uid {
		t.Error("the Deployment was replaced")
	}
}
