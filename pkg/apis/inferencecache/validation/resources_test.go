// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// list reads "name=quantity, name=quantity".
func list(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	if text == "" {
		return nil
	}
	resources := corev1.ResourceList{}
	for entry := range strings.SplitSeq(text, ", ") {
		name, quantity, _ := strings.Cut(entry, "=")
		resources[corev1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return resources
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	tests := []struct {
		requests, limits string
		// want lists the fields below the resources; each error is one of an invalid value.
		want []string
	}{
		{},
		{requests: "cpu=250m"},
		{requests: "cpu=0, memory=0"},
		{requests: "cpu=-1", want: []string{"requests[cpu]"}},
		{limits: "cpu=-1", want: []string{"limits[cpu]"}},
		{requests: "memory=2Gi", limits: "memory=1Gi", want: []string{"limits[memory]"}},
		{requests: "memory=1Gi", limits: "memory=1024Mi"},
		{requests: "memory=1Gi", limits: "memory=1073741824"},
		{limits: "memory=8Gi"},
		{requests: "memory=500m", limits: "memory=1"},
		{requests: "ephemeral-storage=10Gi", limits: "ephemeral-storage=5Gi", want: []string{"limits[ephemeral-storage]"}},
		{requests: "ephemeral-storage=1Gi"},
		{requests: "cpu=2", limits: "cpu=1900m", want: []string{"limits[cpu]"}},
		{requests: "cpu=1.5", limits: "cpu=1500m"},
		{requests: "cpu=1", limits: "memory=1"},
		{requests: "example.com/npu=1", limits: "example.com/npu=1"},
		{requests: "example.com/npu=1", limits: "example.com/npu=2", want: []string{"limits[example.com/npu]"}},
		{requests: "example.com/npu=2", limits: "example.com/npu=1", want: []string{"limits[example.com/npu]"}},
		{limits: "example.com/npu=1"},
		{requests: "example.com/npu=1", want: []string{"requests[example.com/npu]"}},
		{requests: "example.com/npu=500m", limits: "example.com/npu=500m",
			want: []string{"limits[example.com/npu]", "requests[example.com/npu]"}},
		{requests: "example.com/npu=1000m", limits: "example.com/npu=1"},
		{requests: "example.com/npu=1.0", limits: "example.com/npu=1"},
		{limits: "example.com/npu=1.5", want: []string{"limits[example.com/npu]"}},
		{limits: "example.com/npu=0"},
		{limits: "example.com/npu=-1", want: []string{"limits[example.com/npu]"}},
		{requests: "example.com/npu=-1", want: []string{"requests[example.com/npu]"}},
		{limits: "example.com/npu=1k"},
		{requests: "hugepages-2Mi=4Mi", limits: "hugepages-2Mi=4Mi"},
		{requests: "hugepages-2Mi=4Mi", limits: "hugepages-2Mi=8Mi", want: []string{"limits[hugepages-2Mi]"}},
		{limits: "hugepages-2Mi=4Mi"},
		{requests: "hugepages-2Mi=4Mi", want: []string{"requests[hugepages-2Mi]"}},
		{limits: "hugepages-2Mi=3Mi", want: []string{"limits[hugepages-2Mi]"}},
		{limits: "hugepages-2Mi=0"},
		{limits: "hugepages-2Mi=-2Mi", want: []string{"limits[hugepages-2Mi]"}},
		{limits: "hugepages-1Gi=512Mi", want: []string{"limits[hugepages-1Gi]"}},
		{limits: "hugepages-=2Mi", want: []string{"limits[hugepages-]"}},
		{limits: "hugepages-nope=2Mi", want: []string{"limits[hugepages-nope]"}},
		{limits: "hugepages-0=0", want: []string{"limits[hugepages-0]"}},
		{limits: "hugepages--2Mi=2Mi", want: []string{"limits[hugepages--2Mi]"}},
		{limits: "hugepages-+2Mi=2Mi", want: []string{"limits[hugepages-+2Mi]"}},
		{limits: "hugepages-example.com/x=1", want: []string{"limits[hugepages-example.com/x]"}},
		{limits: "hugepages-1.5Mi=3Mi, hugepages-2M=4M"},
		{limits: "gpu=1", want: []string{"limits[gpu]"}},
		{limits: "storage=1Gi, pods=1, CPU=1", want: []string{"limits[storage]", "limits[pods]", "limits[CPU]"}},
		{requests: "gpu=1", want: []string{"requests[gpu]"}},
		{limits: "kubernetes.io/x=1, requests.kubernetes.io/x=1", want: []string{"limits[kubernetes.io/x]", "limits[requests.kubernetes.io/x]"}},
		{limits: "sub.kubernetes.io/x=1, vendor/dev=1"},
		{limits: "requests.example.com/npu=1", want: []string{"limits[requests.example.com/npu]"}},
		{limits: "NPU.example.com/x=1, example.com/=1, /npu=1, a.com/b/c=1, =1",
			want: []string{"limits[NPU.example.com/x]", "limits[example.com/]", "limits[/npu]", "limits[a.com/b/c]", "limits[]"}},
		{limits: "example.com/NPU=1"},
		{limits: strings.Repeat("a", 60) + "." + strings.Repeat("b.", 92) + "com/x=1",
			want: []string{"limits[" + strings.Repeat("a", 60) + "." + strings.Repeat("b.", 92) + "com/x]"}},
		{requests: "cpu=1e2000000000", limits: "cpu=1", want: []string{"requests[cpu]", "limits[cpu]"}},
		{requests: "cpu=1", limits: "cpu=1e2000000000", want: []string{"limits[cpu]"}},
		{requests: "memory=8Ei", limits: "memory=9223372036854775807"},
		{limits: "memory=1e19", want: []string{"limits[memory]"}},
		{limits: "example.com/npu=1e2000000000", want: []string{"limits[example.com/npu]"}},
		{limits: "hugepages-2Mi=1e2000000000", want: []string{"limits[hugepages-2Mi]"}},
		{limits: "hugepages-3e2000000000=1e2000000000", want: []string{"limits[hugepages-3e2000000000]"}},
	}
	for _, tt := range tests {
		t.Run(tt.requests+" "+tt.limits, func(t *testing.T) {
			t.Parallel()
			cb := validBackend()
			all(sglang, remote(redis, managed))(cb)
			cb.Spec.RemoteStorage.Redis = &inferencecache.RedisSpec{Resources: &corev1.ResourceRequirements{
				Requests: list(t, tt.requests), Limits: list(t, tt.limits),
			}}
			var want []string
			for _, path := range tt.want {
				want = append(want, invalid+" spec.remoteStorage.redis.resources."+path)
			}
			checkErrors(t, want, ValidateCacheBackend(cb))
		})
	}
}

// Two rules may find fault with one entry.
func TestRequirementsReportEveryFault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		requests, limits string
		want             int
	}{
		{requests: "example.com/npu=-1", want: 2},
		{requests: "gpu=1", want: 2},
		{requests: "gpu=-1500m", want: 4},
		{limits: "hugepages-2Mi=-2Mi", want: 1},
		{limits: "hugepages-=-2Mi", want: 2},
		{requests: "cpu=0", limits: "cpu=-1", want: 2},
	}
	for _, tt := range tests {
		errs := validateRequirements(&corev1.ResourceRequirements{
			Requests: list(t, tt.requests), Limits: list(t, tt.limits),
		}, field.NewPath("resources"))
		if len(errs) != tt.want {
			t.Errorf("requests %q, limits %q: got %d errors, want %d: %v", tt.requests, tt.limits, len(errs), tt.want, errs)
		}
	}
}

func TestResourcesOfTheSelectedProvider(t *testing.T) {
	t.Parallel()
	bad := &corev1.ResourceRequirements{Limits: corev1.ResourceList{"gpu": resource.MustParse("1")}}
	blocks := func(cb *inferencecache.CacheBackend) {
		cb.Spec.RemoteStorage.Redis = &inferencecache.RedisSpec{Resources: bad}
		cb.Spec.RemoteStorage.LMCacheServer = &inferencecache.LMCacheServerSpec{Resources: bad}
		cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{Resources: bad}
	}
	const prefix, limits = " spec.remoteStorage.", ".resources.limits[gpu]"
	redisBlock, lmcacheBlock, mooncakeBlock := prefix+"redis", prefix+"lmCacheServer", prefix+"mooncake"
	claims := func(claims ...corev1.ResourceClaim) mutation {
		return func(cb *inferencecache.CacheBackend) {
			cb.Spec.RemoteStorage.Mooncake = &inferencecache.MooncakeSpec{Resources: &corev1.ResourceRequirements{Claims: claims}}
		}
	}
	runRuleTests(t, []ruleTest{
		{name: "Redis", mutate: all(sglang, remote(redis, managed), blocks),
			want: []string{invalid + redisBlock + limits, forbidden + lmcacheBlock, forbidden + mooncakeBlock}},
		{name: "LMCacheServer", mutate: all(remote(lmcache, managed), blocks),
			want: []string{invalid + lmcacheBlock + limits, forbidden + redisBlock, forbidden + mooncakeBlock}},
		{name: "Mooncake", mutate: all(remote(mooncake, managed), blocks),
			want: []string{invalid + mooncakeBlock + limits, forbidden + redisBlock, forbidden + lmcacheBlock}},
		{name: "external", mutate: all(remote(mooncake, external), blocks),
			want: []string{invalid + mooncakeBlock + limits, forbidden + redisBlock, forbidden + lmcacheBlock, forbidden + mooncakeBlock}},
		{name: "unknown ownership", mutate: all(remote(mooncake, "Shared"), blocks),
			want: []string{invalid + mooncakeBlock + limits, forbidden + redisBlock, forbidden + lmcacheBlock}},
		{name: "unknown provider", mutate: all(remote("Valkey", managed), blocks)},
		{name: "no claims", mutate: all(remote(mooncake, managed), claims([]corev1.ResourceClaim{}...))},
		{name: "claims", mutate: all(remote(mooncake, managed), claims(corev1.ResourceClaim{Name: "dev"})),
			want: []string{forbidden + mooncakeBlock + ".resources.claims"}, detail: `"dev"`},
		{name: "empty resources", mutate: all(remote(mooncake, managed), claims())},
	})
}

// FuzzResourceRules compares the rules with what resource.Quantity says, where that can
// say it in reasonable time.
func FuzzResourceRules(f *testing.F) {
	f.Fuzz(func(t *testing.T, name, requestText, limitText string) {
		if len(name) > 400 || len(requestText) > 40 || len(limitText) > 40 {
			return
		}
		request, ok := parse(requestText)
		if !ok {
			return
		}
		limit, ok := parse(limitText)
		if !ok {
			return
		}
		resourceName := corev1.ResourceName(name)
		resources := &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{resourceName: request},
			Limits:   corev1.ResourceList{resourceName: limit},
		}
		start := time.Now()
		errs := validateRequirements(resources, field.NewPath("resources"))
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("took %v", took)
		}
		for _, err := range errs {
			if !strings.HasSuffix(err.Field, resourceKey(nil, resourceName).String()) || err.Detail == "" {
				t.Errorf("unexpected error %v", err)
			}
		}
		if len(errs) == 0 {
			checkAdmitted(t, resourceName, request, limit)
		}
	})
}

// parse leaves out exponents that resource.Quantity itself cannot cope with.
func parse(text string) (resource.Quantity, bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 {
		return resource.Quantity{}, false
	}
	quantity, err := resource.ParseQuantity(text)
	return quantity, err == nil
}

func checkAdmitted(t *testing.T, name corev1.ResourceName, request, limit resource.Quantity) {
	t.Helper()
	if request.Sign() < 0 || limit.Sign() < 0 {
		t.Errorf("%s: negative quantities %s and %s are admitted", name, &request, &limit)
	}
	if isStandard(name) {
		if limit.Cmp(request) < 0 {
			t.Errorf("%s: the limit %s is below %s", name, &limit, &request)
		}
		return
	}
	if limit.Cmp(request) != 0 {
		t.Errorf("%s: the limit %s is not %s", name, &limit, &request)
	}
	if len(apivalidation.IsQualifiedName(string(name))) > 0 {
		t.Errorf("the name %q is admitted", name)
	}
}
