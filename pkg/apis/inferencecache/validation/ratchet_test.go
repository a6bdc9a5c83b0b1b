// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

func TestIntroduced(t *testing.T) {
	t.Parallel()
	path := field.NewPath("spec", "a")
	pointer := func(n int32) *inferencecache.AutoscalingSpec {
		return &inferencecache.AutoscalingSpec{MinReplicas: &n}
	}
	tests := []struct {
		name     string
		old, new *field.Error
		want     bool
	}{
		{name: "same", old: field.Invalid(path, "x", "d"), new: field.Invalid(path, "x", "d")},
		{name: "another type", old: field.Invalid(path, "x", "d"), new: field.Duplicate(path, "x"), want: true},
		{name: "another field", old: field.Invalid(path, "x", "d"), new: field.Invalid(path.Index(0), "x", "d"), want: true},
		{name: "another value", old: field.Invalid(path, "x", "d"), new: field.Invalid(path, "y", "d"), want: true},
		{name: "another detail", old: field.Invalid(path, "x", "d"), new: field.Invalid(path, "x", "e"), want: true},
		{name: "number and string", old: field.Invalid(path, 1, "d"), new: field.Invalid(path, "1", "d"), want: true},
		{name: "equal values behind pointers", old: field.Invalid(path, pointer(1), "d"), new: field.Invalid(path, pointer(1), "d")},
		{name: "pointer and value", old: field.Invalid(path, new(int32(1)), "d"), new: field.Invalid(path, int32(1), "d")},
		{name: "other values behind pointers", old: field.Invalid(path, pointer(1), "d"), new: field.Invalid(path, pointer(2), "d"), want: true},
		{name: "equal quantities", old: field.Invalid(path, resource.MustParse("1Gi"), "d"), new: field.Invalid(path, resource.MustParse("1024Mi"), "d")},
		{name: "equal maps", old: field.Invalid(path, map[string]int{"a": 1, "b": 2}, "d"), new: field.Invalid(path, map[string]int{"b": 2, "a": 1}, "d")},
		{name: "values that JSON cannot spell", old: field.Invalid(path, math.NaN(), "d"), new: field.Invalid(path, math.NaN(), "d")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Introduced(field.ErrorList{tt.new}, field.ErrorList{tt.old})
			if (len(got) == 1) != tt.want {
				t.Errorf("introduced %v, want %v", got, tt.want)
			}
		})
	}
	if got := Introduced(nil, field.ErrorList{field.Required(path, "d")}); got != nil {
		t.Errorf("a repaired object introduces %v", got)
	}
}

// update is a change of a stored object, which may be one that would be refused today.
type update struct {
	name     string
	old, new mutation
	// want is what the update is refused for.
	want []string
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	label := func(cb *inferencecache.CacheBackend) { cb.Labels = map[string]string{"a": "b"} }
	allow := func(cb *inferencecache.CacheBackend) { cb.Spec.AllowCrossNamespace = true }
	redisAt := func(text string) mutation { return all(sglang, remote(redis, external), endpoint(text)) }
	mooncakeTier := remote(mooncake, managed)
	memory := func(request, limit string) mutation {
		return func(cb *inferencecache.CacheBackend) {
			mooncakeTier(cb)
			cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{Resources: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"memory": resource.MustParse(request)},
				Limits:   corev1.ResourceList{"memory": resource.MustParse(limit)},
			}}
		}
	}
	const path = " spec.remoteStorage.endpoint"
	reserved := forbidden + overrides + "args"
	tests := []update{
		{name: "malformed endpoint kept", old: redisAt("shard1"), new: all(redisAt("shard1"), label)},
		{name: "malformed endpoint traded", old: redisAt("shard1"), new: redisAt("shard2"), want: []string{invalid + path}},
		{name: "foreign endpoint traded", old: redisAt("kv-a.vault.svc:1"), new: redisAt("kv-b.vault.svc:1"), want: []string{forbidden + path}},
		{name: "foreign endpoint kept", old: redisAt("kv-a.vault.svc:1"), new: all(redisAt("kv-a.vault.svc:1"), replicas(0))},
		{name: "opt-in withdrawn", old: all(redisAt("kv-a.vault.svc:1"), allow), new: redisAt("kv-a.vault.svc:1"), want: []string{forbidden + path}},
		{name: "managed endpoint traded", old: all(mooncakeTier, endpoint("a:1")), new: all(mooncakeTier, endpoint("b:1")), want: []string{forbidden + path}},
		{name: "reserved entry moves up", old: args("--kv-transfer-config"), new: args("--seed", "--kv-transfer-config"), want: []string{reserved + "[1]"}},
		{name: "reserved entry moves down", old: args("--seed", "--kv-transfer-config"), new: args("--kv-transfer-config"), want: []string{reserved + "[0]"}},
		{name: "reserved entry edited", old: args("--kv-transfer-config=a"), new: args("--kv-transfer-config=b"), want: []string{reserved + "[0]"}},
		{name: "reserved entry kept", old: args("--kv-transfer-config=a"), new: args("--kv-transfer-config=a", "--seed")},
		{name: "Mooncake from 3 to 2", old: all(mooncakeTier, replicas(3)), new: all(mooncakeTier, replicas(2)), want: []string{invalid + " spec.replicas"}},
		{name: "Mooncake from 3 to 1", old: all(mooncakeTier, replicas(3)), new: all(mooncakeTier, replicas(1))},
		{name: "Mooncake from 3 to 0", old: all(mooncakeTier, replicas(3)), new: all(mooncakeTier, replicas(0))},
		{name: "Mooncake with autoscaling", old: all(mooncakeTier, scale(1, 4)), new: all(mooncakeTier, scale(1, 4), label)},
		{name: "Mooncake with autoscaling edited", old: all(mooncakeTier, scale(1, 4)), new: all(mooncakeTier, scale(1, 5)), want: []string{invalid + " spec.autoscaling"}},
		{name: "HiCache with both capacities", old: all(hiCache, capacity(48, "2")), new: all(hiCache, capacity(48, "2"), label)},
		{name: "HiCache with both capacities edited", old: all(hiCache, capacity(48, "2")), new: all(hiCache, capacity(48, "3")), want: []string{invalid + " spec.hiCache"}},
		{name: "limit spelt otherwise", old: memory("2Gi", "1Gi"), new: memory("2Gi", "1024Mi")},
		{name: "both spelt otherwise", old: memory("2Gi", "1Gi"), new: memory("2147483648", "1073741824")},
		{name: "limit edited", old: memory("2Gi", "1Gi"), new: memory("2Gi", "1500Mi"), want: []string{invalid + " spec.remoteStorage.mooncake.resources.limits[memory]"}},
		{name: "request edited", old: memory("2Gi", "1Gi"), new: memory("3Gi", "1Gi"), want: []string{invalid + " spec.remoteStorage.mooncake.resources.limits[memory]"}},
		{name: "one of two repaired", old: all(redisAt("shard1"), role("ReadOnly")), new: all(redisAt("shard1:1"), role("ReadOnly"))},
		{name: "Mooncake left with the flag set", old: all(mooncakeTier, hostNetwork), new: hostNetwork, want: []string{invalid + " spec.integration.engineHostNetwork"}},
		{name: "Mooncake left with the flag", old: all(mooncakeTier, hostNetwork), new: label},
		{name: "fault unmasked", old: all(remote("Valkey", external), endpoint("shard1")), new: redisAt("shard1"), want: []string{invalid + path}},
		{name: "mode changed under two errors", old: all(mode("EventsOnly"), scale(1, 2)), new: scale(1, 2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			oldCB, newCB := validBackend(), validBackend()
			tt.old(oldCB)
			tt.new(newCB)
			checkErrors(t, tt.want, Introduced(ValidateCacheBackend(newCB), ValidateCacheBackend(oldCB)))
		})
	}
}

// TestEnvUpdates edits entries of the environment that are bad as a whole. The messages
// about them stay the same.
func TestEnvUpdates(t *testing.T) {
	t.Parallel()
	const entry = overrides + "env[0]"
	field := &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}
	secret := func(key string) *corev1.SecretKeySelector { return &corev1.SecretKeySelector{Key: key} }
	divisor := func(text string) *corev1.ResourceFieldSelector {
		return &corev1.ResourceFieldSelector{Divisor: resource.MustParse(text)}
	}
	variable := func(value string, source corev1.EnvVarSource) mutation {
		return env(corev1.EnvVar{Name: "A", Value: value, ValueFrom: &source})
	}
	reserved := func(value string) mutation { return env(corev1.EnvVar{Name: "PYTHONHASHSEED", Value: value}) }
	tests := []update{
		{name: "value beside a source edited", old: variable("1", corev1.EnvVarSource{FieldRef: field}),
			new: variable("2", corev1.EnvVarSource{FieldRef: field}), want: []string{invalid + entry}},
		{name: "source beside a value edited", old: variable("1", corev1.EnvVarSource{SecretKeyRef: secret("a")}),
			new: variable("1", corev1.EnvVarSource{SecretKeyRef: secret("b")}), want: []string{invalid + entry}},
		{name: "value beside a source kept", old: variable("1", corev1.EnvVarSource{FieldRef: field}),
			new: variable("1", corev1.EnvVarSource{FieldRef: field.DeepCopy()})},
		{name: "one of two sources edited", old: variable("", corev1.EnvVarSource{FieldRef: field, SecretKeyRef: secret("a")}),
			new: variable("", corev1.EnvVarSource{FieldRef: field, SecretKeyRef: secret("b")}), want: []string{invalid + entry + ".valueFrom"}},
		{name: "two sources kept", old: variable("", corev1.EnvVarSource{FieldRef: field, SecretKeyRef: secret("a")}),
			new: variable("", corev1.EnvVarSource{FieldRef: field.DeepCopy(), SecretKeyRef: secret("a")})},
		{name: "divisor of one of two sources edited", old: variable("", corev1.EnvVarSource{FieldRef: field, ResourceFieldRef: divisor("1Ki")}),
			new: variable("", corev1.EnvVarSource{FieldRef: field, ResourceFieldRef: divisor("1Mi")}), want: []string{invalid + entry + ".valueFrom"}},
		{name: "divisor of one of two sources spelt otherwise", old: variable("", corev1.EnvVarSource{FieldRef: field, ResourceFieldRef: divisor("1Ki")}),
			new: variable("", corev1.EnvVarSource{FieldRef: field, ResourceFieldRef: divisor("1024")})},
		{name: "entry without a source edited", old: variable("", corev1.EnvVarSource{}),
			new: env(corev1.EnvVar{Name: "B", ValueFrom: &corev1.EnvVarSource{}}), want: []string{required + entry + ".valueFrom"}},
		{name: "divisor edited", old: variable("", corev1.EnvVarSource{ResourceFieldRef: divisor("1e2000000001")}),
			new: variable("", corev1.EnvVarSource{ResourceFieldRef: divisor("1e2000000002")}), want: []string{invalid + divisorPath}},
		{name: "divisor kept", old: variable("", corev1.EnvVarSource{ResourceFieldRef: divisor("1e2000000001")}),
			new: variable("", corev1.EnvVarSource{ResourceFieldRef: divisor("1e2000000001")})},
		{name: "reserved variable edited", old: reserved("1"), new: reserved("2"), want: []string{forbidden + entry + ".name"}},
		{name: "reserved variable kept", old: reserved("1"), new: reserved("1")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			oldCB, newCB := validBackend(), validBackend()
			tt.old(oldCB)
			tt.new(newCB)
			checkErrors(t, tt.want, Introduced(ValidateCacheBackend(newCB), ValidateCacheBackend(oldCB)))
		})
	}
}

func TestPolicyUpdate(t *testing.T) {
	t.Parallel()
	ttl := func(d time.Duration) *inferencecache.CachePolicy {
		return &inferencecache.CachePolicy{Spec: inferencecache.CachePolicySpec{EvictionTTL: &metav1.Duration{Duration: d}}}
	}
	if got := Introduced(ValidateCachePolicy(ttl(-60*time.Second)), ValidateCachePolicy(ttl(-time.Minute))); len(got) > 0 {
		t.Errorf("an unchanged value is refused: %v", got)
	}
	got := Introduced(ValidateCachePolicy(ttl(-2*time.Minute)), ValidateCachePolicy(ttl(-time.Minute)))
	checkErrors(t, []string{invalid + " spec.evictionTTL"}, got)
}
