// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

const overrides = " spec.integration.engineOverrides."

func suppressArgs(flags ...string) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Integration.EngineOverrides = &inferencecache.EngineOverrides{SuppressArgs: flags}
	}
}

func suppressEnv(names ...string) mutation {
	return func(cb *inferencecache.CacheBackend) {
		cb.Spec.Integration.EngineOverrides = &inferencecache.EngineOverrides{SuppressEnv: names}
	}
}

func TestReservedArgs(t *testing.T) {
	t.Parallel()
	first := []string{forbidden + overrides + "args[0]"}
	tests := []ruleTest{
		{name: "flag", mutate: args("--kv-transfer-config"), want: first, detail: "--kv-transfer-config is reserved by the adapter vllm/LMCache"},
		{name: "flag with its value", mutate: args("--kv-transfer-config={}"), want: first},
		{name: "flag before its value", mutate: args("--kv-transfer-config", "{}"), want: first},
		{name: "second entry", mutate: args("--seed=1", "--kv-transfer-config=a=b"), want: []string{forbidden + overrides + "args[1]"}},
		{name: "suppressed", mutate: suppressArgs("--seed", "--kv-transfer-config"), want: []string{forbidden + overrides + "suppressArgs[1]"}},
		{name: "suppressed entries are compared whole", mutate: suppressArgs("--kv-transfer-config=x")},
		{name: "flag of another engine", mutate: args("--enable-lmcache")},
		{name: "SGLang", mutate: all(sglang, args("--enable-lmcache", "--lmcache-config-file=x", "--kv-transfer-config")),
			want: []string{forbidden + overrides + "args[0]", forbidden + overrides + "args[1]"}, detail: "sglang/LMCache"},
		{name: "unsupported pair", mutate: all(hiCache, runtimeAndType("VLLM", "SGLangHiCache"), args("--kv-transfer-config")),
			want: []string{invalid + " spec.runtime"}},
		{name: "unknown runtime", mutate: all(runtimeAndType("vllm", "LMCache"), args("--kv-transfer-config"))},
		{name: "unknown type", mutate: all(unknownType, args("--kv-transfer-config"))},
		{name: "events only", mutate: all(mode("EventsOnly"), args("--kv-transfer-config")), want: first},
		{name: "no integration", mutate: func(cb *inferencecache.CacheBackend) { cb.Spec.Integration = nil }},
	}
	for _, arg := range []string{
		"--kv-transfer-config {}", " --kv-transfer-config", "kv-transfer-config", "-kv-transfer-config",
		"--kv_transfer_config", "--KV-TRANSFER-CONFIG", "--kv-transfer", "", "=",
	} {
		tests = append(tests, ruleTest{name: "admitted " + arg, mutate: args(arg)})
	}
	for _, flag := range []string{
		"--enable-hierarchical-cache", "--hicache-size", "--hicache-ratio",
		"--hicache-write-policy", "--hicache-io-backend", "--hicache-mem-layout",
	} {
		tests = append(tests, ruleTest{name: "HiCache " + flag, mutate: all(hiCache, args(flag+"=1")), want: first})
	}
	runRuleTests(t, tests)
}

func TestReservedEnv(t *testing.T) {
	t.Parallel()
	first := []string{forbidden + overrides + "env[0].name"}
	variable := func(name string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: "1"} }
	tests := []ruleTest{
		{name: "second", mutate: env(variable("A"), variable("PYTHONHASHSEED")), want: []string{forbidden + overrides + "env[1].name"}},
		{name: "suppressed", mutate: suppressEnv("A", "LMCACHE_REMOTE_URL"), want: []string{forbidden + overrides + "suppressEnv[1]"}, detail: "LMCACHE_REMOTE_URL"},
		{name: "other case", mutate: env(variable("pythonhashseed"))},
		{name: "tunable", mutate: env(variable("LMCACHE_CHUNK_SIZE"))},
		{name: "SGLang", mutate: all(sglang, env(variable("LMCACHE_USE_EXPERIMENTAL"))), want: first, detail: "sglang/LMCache"},
		{name: "SGLang does not reserve VLLM's", mutate: all(sglang, env(variable("PYTHONHASHSEED")))},
		{name: "HiCache reserves none", mutate: all(hiCache, env(variable("INFERENCECACHE_FAIL_OPEN")))},
		{name: "unknown runtime", mutate: all(runtimeAndType("vllm", "LMCache"), env(variable("PYTHONHASHSEED")))},
	}
	for _, name := range []string{"VLLM_USE_V1", "LMCACHE_REMOTE_URL", "INFERENCECACHE_FAIL_OPEN", "PYTHONHASHSEED"} {
		tests = append(tests, ruleTest{name: name, mutate: env(variable(name)), want: first, detail: name})
	}
	runRuleTests(t, tests)
}

const divisorPath = overrides + "env[0].valueFrom.resourceFieldRef.divisor"

func divisorOf(quantity resource.Quantity) corev1.EnvVar {
	return corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: quantity},
	}}
}

func TestDivisor(t *testing.T) {
	t.Parallel()
	tests := []ruleTest{{name: "left out", mutate: env(divisorOf(resource.Quantity{}))}}
	for text, want := range map[string][]string{
		"0": nil, "1": nil, "1Mi": nil, "1m": nil, "1E": nil, "0e2000000001": nil,
		"1e19": {invalid + divisorPath}, "1e2000000001": {invalid + divisorPath}, "-1e2000000001": {invalid + divisorPath},
	} {
		tests = append(tests, ruleTest{name: text, mutate: env(divisorOf(resource.MustParse(text))), want: want})
	}
	runRuleTests(t, tests)
}

func TestOverrideEnv(t *testing.T) {
	t.Parallel()
	first := overrides + "env[0]"
	from := func(source corev1.EnvVarSource) mutation {
		return env(corev1.EnvVar{Name: "A", ValueFrom: &source})
	}
	tests := []ruleTest{
		{name: "no name", mutate: env(corev1.EnvVar{Value: "1"}), want: []string{required + first + ".name"}},
		{name: "names with dashes and dots", mutate: env(corev1.EnvVar{Name: "a-b.C_1"}, corev1.EnvVar{Name: "-"})},
		{name: "value and source", mutate: env(corev1.EnvVar{Name: "A", Value: "1",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}), want: []string{invalid + first}},
		{name: "empty value and source", mutate: from(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}})},
		{name: "no source", mutate: from(corev1.EnvVarSource{}), want: []string{required + first + ".valueFrom"}},
		{name: "two sources", mutate: from(corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{}, FileKeyRef: &corev1.FileKeySelector{},
		}), want: []string{invalid + first + ".valueFrom"}},
		{name: "everything at once", mutate: env(corev1.EnvVar{Value: "1", ValueFrom: &corev1.EnvVarSource{}}),
			want: []string{required + first + ".name", invalid + first, required + first + ".valueFrom"}},
		{name: "unsupported pair", mutate: all(runtimeAndType("vllm", "LMCache"), env(corev1.EnvVar{Name: "1"})),
			want: []string{invalid + first + ".name"}},
	}
	for _, name := range []string{"1A", "A B", "A=B", ".", "..", "..A", "Ä"} {
		tests = append(tests, ruleTest{name: "name " + name, mutate: env(corev1.EnvVar{Name: name}), want: []string{invalid + first + ".name"}})
	}
	for name, source := range map[string]corev1.EnvVarSource{
		"configMapKeyRef":  {ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}},
		"fieldRef":         {FieldRef: &corev1.ObjectFieldSelector{}},
		"fileKeyRef":       {FileKeyRef: &corev1.FileKeySelector{}},
		"resourceFieldRef": {ResourceFieldRef: &corev1.ResourceFieldSelector{}},
		"secretKeyRef":     {SecretKeyRef: &corev1.SecretKeySelector{}},
	} {
		tests = append(tests, ruleTest{name: "source " + name, mutate: from(source)})
	}
	runRuleTests(t, tests)
}

// TestEnvSourcesIsComplete fails when Kubernetes adds a source.
func TestEnvSourcesIsComplete(t *testing.T) {
	t.Parallel()
	source := reflect.TypeFor[corev1.EnvVarSource]()
	var every corev1.EnvVarSource
	value := reflect.ValueOf(&every).Elem()
	for i := range source.NumField() {
		value.Field(i).Set(reflect.New(source.Field(i).Type.Elem()))
	}
	if got := envSources(&every); len(got) != source.NumField() {
		t.Errorf("%v are known of %d sources", got, source.NumField())
	}
}
