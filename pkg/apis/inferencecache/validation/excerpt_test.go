// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func capacityOf(quantity resource.Quantity) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.LMCache = &inferencecache.LMCacheSpec{HostMemory: &inferencecache.HostMemorySpec{Capacity: &quantity}}
	}
}

func limitOf(name string, quantity resource.Quantity) mutation {
	return all(remote(mooncake, managed), func(cb *inferencecache.CacheBackend) {
		limits := corev1.ResourceList{corev1.ResourceName(name): quantity}
		cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{Resources: &corev1.ResourceRequirements{Limits: limits}}
	})
}

// TestLongValues has values of users that are far too long. Errors are short, and an edit
// at the end of the value, which no message shows, is a new violation.
func TestLongValues(t *testing.T) {
	t.Parallel()
	long := func(end string) string { return strings.Repeat("x", 100_000) + end }
	zeros := strings.Repeat("0", 80)
	tests := []struct {
		name     string
		old, new mutation
	}{
		{name: "malformed endpoint", old: all(sglang, remote(redis, external), endpoint(long("a"))),
			new: all(sglang, remote(redis, external), endpoint(long("b")))},
		{name: "foreign endpoint", old: all(sglang, remote(redis, external), endpoint(long("a")+".vault.svc:1")),
			new: all(sglang, remote(redis, external), endpoint(long("b")+".vault.svc:1"))},
		{name: "foreign namespace", old: all(sglang, remote(redis, external), endpoint("a."+long("a")+".svc:1")),
			new: all(sglang, remote(redis, external), endpoint("a."+long("b")+".svc:1"))},
		{name: "managed endpoint", old: all(remote(mooncake, managed), endpoint(long("a"))), new: all(remote(mooncake, managed), endpoint(long("b")))},
		{name: "reserved argument", old: args("--kv-transfer-config=" + long("a")), new: args("--kv-transfer-config=" + long("b"))},
		{name: "reserved variable", old: env(corev1.EnvVar{Name: "PYTHONHASHSEED", Value: long("a")}),
			new: env(corev1.EnvVar{Name: "PYTHONHASHSEED", Value: long("b")})},
		{name: "name of a variable", old: env(corev1.EnvVar{Name: "1" + long("a")}), new: env(corev1.EnvVar{Name: "1" + long("b")})},
		{name: "blank command", old: command(strings.Repeat(" ", 1000) + "\t"), new: command(strings.Repeat(" ", 1000) + "\n")},
		{name: "ratio", old: all(hiCache, ratio(long("a"))), new: all(hiCache, ratio(long("b")))},
		{name: "both capacities", old: all(hiCache, capacity(48, "2."+zeros+"1")), new: all(hiCache, capacity(48, "2."+zeros+"2"))},
		{name: "kernel check", old: kernelCheck(long("a")), new: kernelCheck(long("b"))},
		{name: "name of a resource", old: limitOf("a/"+long("a"), resource.MustParse("1")), new: limitOf("a/"+long("b"), resource.MustParse("1"))},
		{name: "page size", old: limitOf("hugepages-1"+long("a"), resource.MustParse("0")), new: limitOf("hugepages-1"+long("b"), resource.MustParse("0"))},
		{name: "capacity", old: capacityOf(manyDigits(100_000, 0)), new: capacityOf(manyDigits(100_000, 1))},
		{name: "capacity of 90 digits", old: capacityOf(resource.MustParse("1" + zeros + "1")), new: capacityOf(resource.MustParse("1" + zeros + "2"))},
		{name: "limit", old: limitOf("cpu", manyDigits(100_000, 0)), new: limitOf("cpu", manyDigits(100_000, 1))},
		{name: "claim", old: claim(long("a")), new: claim(long("b"))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			oldCB, newCB := validBackend(), validBackend()
			tt.old(oldCB)
			tt.new(newCB)
			errs := ValidateCacheBackend(oldCB)
			checkShort(t, errs)
			if got := Introduced(ValidateCacheBackend(oldCB.DeepCopy()), errs); len(got) > 0 {
				t.Errorf("no change is refused for %v", got)
			}
			if got := Introduced(ValidateCacheBackend(newCB), errs); len(errs) == 0 || len(got) != len(errs) {
				t.Errorf("an edit is refused for %d violations, want %d", len(got), len(errs))
			}
		})
	}
}

func checkShort(t *testing.T, errs field.ErrorList) {
	t.Helper()
	for _, err := range errs {
		if text := err.Error(); len(text) > 1000 {
			t.Errorf("an error has %d bytes: %.300s", len(text), text)
		}
	}
}

func TestLongValuesOfOtherKinds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", 100_000)
	policy := &inferencecache.CachePolicy{Spec: inferencecache.CachePolicySpec{RoutingFloorScore: &long}}
	tenant := &inferencecache.CacheTenant{Spec: inferencecache.CacheTenantSpec{Crypto: map[string]runtime.RawExtension{long: {}}}}
	conditions := []metav1.Condition{{Type: long + "/", Reason: "-" + long, Status: metav1.ConditionStatus(long)}}
	for _, errs := range []field.ErrorList{
		ValidateCachePolicy(policy), ValidateCacheTenant(tenant), validateConditionsUpdate(conditions, nil),
	} {
		if len(errs) == 0 {
			t.Error("there is no error")
		}
		checkShort(t, errs)
	}
}

// TestManyDigits validates a number whose conversion to decimal digits takes seconds.
func TestManyDigits(t *testing.T) {
	t.Parallel()
	number := manyDigits(10_000_000, 1)
	start := time.Now()
	cb := validBackend()
	all(capacityOf(number), env(divisorOf(number)), limitOf("example.com/npu", number))(cb)
	errs := ValidateCacheBackend(cb)
	checkErrors(t, []string{
		invalid + " spec.lmCache.hostMemory.capacity", invalid + divisorPath, invalid + " spec.remoteStorage.mooncake.resources.limits[example.com/npu]",
	}, errs)
	if got := Introduced(errs, errs); len(got) > 0 {
		t.Errorf("no change is refused for %v", got)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	if text := errs.ToAggregate().Error(); !strings.Contains(text, "a number of about 100") {
		t.Errorf("errors are %s", text)
	}
}

// TestSecretsAreNotPrinted looks for values of variables in every way to print an error.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	cb := validBackend()
	env(
		corev1.EnvVar{Name: "A", Value: "hunter2", ValueFrom: &corev1.EnvVarSource{}},
		corev1.EnvVar{Name: "PYTHONHASHSEED", Value: "hunter2"},
		corev1.EnvVar{Name: "B", Value: "hunter2", ValueFrom: &corev1.EnvVarSource{
			FieldRef:     &corev1.ObjectFieldSelector{},
			SecretKeyRef: &corev1.SecretKeySelector{Key: "hunter2"},
		}},
	)(cb)
	errs := ValidateCacheBackend(cb)
	if len(errs) != 5 {
		t.Errorf("there are %d errors: %v", len(errs), errs)
	}
	for _, err := range errs {
		bad, _ := err.BadValue.(excerpt)
		for _, text := range []string{err.Error(), bad.String()} {
			if strings.Contains(text, "hunter2") {
				t.Errorf("printed: %s", text)
			}
		}
	}
}

func kernelCheck(value string) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Annotations = map[string]string{v1alpha1.AnnotationKernelCheck: value}
	}
}

func ratio(text string) mutation {
	return func(cb *inferencecache.CacheBackend) { cb.Spec.HiCache = &inferencecache.HiCacheSpec{Ratio: text} }
}

func command(entries ...string) mutation {
	return all(remote(mooncake, managed), func(cb *inferencecache.CacheBackend) {
		cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{Command: entries}
	})
}

func claim(name string) mutation {
	return all(remote(mooncake, managed), func(cb *inferencecache.CacheBackend) {
		cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{Resources: &corev1.ResourceRequirements{
			Claims: []corev1.ResourceClaim{{Name: name}},
		}}
	})
}

// manyDigits returns a whole number of that many digits and more.
func manyDigits(n, end int64) resource.Quantity {
	number := new(big.Int).Lsh(big.NewInt(1), uint(n*10/3))
	quantity := resource.MustParse("1")
	quantity.AsDec().SetUnscaledBig(number.Add(number, big.NewInt(end)))
	return quantity
}
