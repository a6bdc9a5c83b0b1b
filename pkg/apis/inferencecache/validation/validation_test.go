// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

const (
	required     = string(field.ErrorTypeRequired)
	invalid      = string(field.ErrorTypeInvalid)
	forbidden    = string(field.ErrorTypeForbidden)
	notSupported = string(field.ErrorTypeNotSupported)
	tooMany      = string(field.ErrorTypeTooMany)
)

// mutation changes a valid object.
type mutation func(*inferencecache.CacheBackend)

// ruleTest is a row of a table: a change of a valid object and the errors that it brings,
// as "type field".
type ruleTest struct {
	name   string
	mutate mutation
	want   []string
	// detail has to occur in every detail.
	detail string
}

// validBackend is a host-only backend with every default.
func validBackend() *inferencecache.CacheBackend {
	return &inferencecache.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Name: "ember", Namespace: "kv-lab"},
		Spec: inferencecache.CacheBackendSpec{
			Runtime:        inferencecache.RuntimeVLLM,
			Type:           inferencecache.CacheTypeLMCache,
			DeploymentKind: inferencecache.DeploymentKindDeployment,
			Replicas:       new(int32(1)),
			Integration: &inferencecache.IntegrationSpec{
				Mode:     inferencecache.IntegrationModeOffload,
				Role:     inferencecache.IntegrationRoleReadWrite,
				FailOpen: new(true),
			},
			Observation: &inferencecache.ObservationSpec{},
		},
	}
}

// all applies mutations in turn.
func all(mutations ...mutation) mutation {
	return func(cb *inferencecache.CacheBackend) {
		for _, mutate := range mutations {
			mutate(cb)
		}
	}
}

func runtimeAndType(runtime inferencecache.Runtime, cacheType inferencecache.CacheType) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Runtime, cb.Spec.Type = runtime, cacheType
	}
}

func sglang(cb *inferencecache.CacheBackend) {
	cb.Spec.Runtime = inferencecache.RuntimeSGLang
}

func unknownType(cb *inferencecache.CacheBackend) {
	cb.Spec.Type = "Mooncake"
}

// hiCache makes the backend a valid SGLangHiCache.
func hiCache(cb *inferencecache.CacheBackend) {
	runtimeAndType(inferencecache.RuntimeSGLang, inferencecache.CacheTypeSGLangHiCache)(cb)
	cb.Spec.HiCache = &inferencecache.HiCacheSpec{SizeGB: new(int32(48))}
	cb.Spec.EngineSelector = &inferencecache.EngineSelector{MatchLabels: map[string]string{"app": "engine"}}
}

func remote(provider inferencecache.StorageProvider, ownership inferencecache.StorageOwnership) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.RemoteStorage = &inferencecache.RemoteStorageSpec{Provider: provider, Ownership: ownership}
		if ownership == inferencecache.StorageOwnershipExternal {
			cb.Spec.RemoteStorage.Endpoint = "shard1.example.net:6379"
		}
	}
}

func endpoint(text string) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.RemoteStorage.Endpoint = text
	}
}

func replicas(n int32) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Replicas = &n
	}
}

// scale sets the bounds of the autoscaler; 0 leaves the lower one out.
func scale(minReplicas, maxReplicas int32) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Autoscaling = &inferencecache.AutoscalingSpec{MaxReplicas: maxReplicas}
		if minReplicas != 0 {
			cb.Spec.Autoscaling.MinReplicas = &minReplicas
		}
	}
}

func mode(mode inferencecache.IntegrationMode) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Integration.Mode = mode
	}
}

func role(role inferencecache.IntegrationRole) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Integration.Role = role
	}
}

func hostNetwork(cb *inferencecache.CacheBackend) {
	cb.Spec.Integration.EngineHostNetwork = true
}

func args(args ...string) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Integration.EngineOverrides = &inferencecache.EngineOverrides{Args: args}
	}
}

func env(env ...corev1.EnvVar) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Integration.EngineOverrides = &inferencecache.EngineOverrides{Env: env}
	}
}

const (
	managed  = inferencecache.StorageOwnershipManaged
	external = inferencecache.StorageOwnershipExternal
	redis    = inferencecache.StorageProviderRedis
	lmcache  = inferencecache.StorageProviderLMCacheServer
	mooncake = inferencecache.StorageProviderMooncake
)

func runRuleTests(t *testing.T, tests []ruleTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cb := validBackend()
			if tt.mutate != nil {
				tt.mutate(cb)
			}
			before := cb.DeepCopy()
			errs := ValidateCacheBackend(cb)
			if diff := cmp.Diff(before, cb); diff != "" {
				t.Errorf("validation changed the object (-before +after):\n%s", diff)
			}
			checkErrors(t, tt.want, errs)
			for _, err := range errs {
				if !strings.Contains(err.Detail, tt.detail) {
					t.Errorf("detail of %v does not contain %q", err, tt.detail)
				}
			}
			if again := ValidateCacheBackend(cb); again.ToAggregate() != nil && again.ToAggregate().Error() != errs.ToAggregate().Error() {
				t.Errorf("a second run says %v, the first said %v", again, errs)
			}
		})
	}
}

// checkErrors compares errors as sets of type and field, and holds each to what every
// error has: a detail in lower case without the path, and a bad value that is no pointer.
func checkErrors(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	got := []string{}
	for _, err := range errs {
		got = append(got, string(err.Type)+" "+err.Field)
		first := []rune(err.Detail + " ")[0]
		if unicode.IsSpace(first) || unicode.IsUpper(first) && !startsWithName(err.Detail) {
			t.Errorf("detail of %v is empty or begins in upper case", err)
		}
		if strings.Contains(err.Detail, err.Field) {
			t.Errorf("detail of %v repeats the path", err)
		}
		if strings.HasPrefix(strings.TrimPrefix(fmt.Sprintf("%T", err.BadValue), "[]"), "*") {
			t.Errorf("bad value of %v is a pointer", err)
		}
	}
	slices.Sort(got)
	want = append([]string{}, want...)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), slices.Compact(got)); diff != "" {
		t.Errorf("errors (-want +got):\n%s\nall: %v", diff, errs.ToAggregate())
	}
}

// startsWithName excuses details that begin with the name of a product, a mode or a
// variable.
func startsWithName(detail string) bool {
	for _, name := range []string{
		"SGLang ", "EventsOnly ",
		"VLLM_USE_V1", "LMCACHE_", "INFERENCECACHE_", "PYTHONHASHSEED",
	} {
		if strings.HasPrefix(detail, name) {
			return true
		}
	}
	return false
}
