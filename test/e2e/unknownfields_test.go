// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// unknown is a member that no object has.
const unknown = "zzUnknown"

// TestUnknownFields adds a member that does not exist to every object in the published schema. Users rely on hearing of a
// misspelt field, with its full path, wherever it is.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	schemas := publishedSchemas(t)
	for kind := range resources {
		root, ok := schemas.ofKind(kind)
		if !ok {
			t.Fatalf("no schema of %s is published", kind)
		}
		paths := schemas.objectPaths(root, "")
		if len(paths) < 5 {
			t.Fatalf("%s: found only %q", kind, paths)
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			for _, parent := range paths {
				field := strings.TrimPrefix(parent+"."+unknown, ".")
				t.Run(field, func(t *testing.T) { checkUnknown(t, kind, namespace, field, 1) })
			}
		})
	}
}

// TestRemovedFields sends what earlier forms of the API had, and misspellings that differ in case only.
func TestRemovedFields(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	object := map[string]any{"limits": map[string]any{"cpu": "1"}}
	removed := map[string]map[string]any{
		"CacheBackend": {
			"spec.backendConfig":                 map[string]any{"x": "y"},
			"spec.resources":                     object,
			"spec.storage":                       map[string]any{"pvc": map[string]any{"size": "1Gi"}},
			"spec.integration.engine":            "vllm",
			"spec.integration.firstEventTimeout": "1m",
			"spec.template.containers":           []any{map[string]any{"name": "c"}},
			"spec.endpoint":                      "kv:1",
			"spec.image":                         "redis",
			"spec.redis":                         map[string]any{"image": "redis"},
			"spec.lmCacheServer":                 map[string]any{"image": "lmcache"},
			"spec.mooncake":                      map[string]any{"image": "mooncake"},
			"spec.remoteStorage.image":           "redis",
			"spec.remoteStorage.serverImage":     "redis",
			"spec.remoteStorage.command":         []any{"serve"},
			"spec.remoteStorage.resources":       object,
			"spec.engineSelector.matchExpressions": []any{
				map[string]any{"key": "app", "operator": "Exists"},
			},
			"status.health":   "Degraded",
			"status.capacity": "1Gi",
			// The case of a name matters.
			"spec.lmcache":       map[string]any{"chunkSizeTokens": 64},
			"spec.LMCache":       map[string]any{"chunkSizeTokens": 64},
			"spec.remotestorage": map[string]any{"provider": "Redis"},
			"spec.hicache":       map[string]any{"sizeGB": 1},
			"spec.Replicas":      3,
		},
		"CachePolicy": {"spec.routingfloorscore": "0.5", "status.health": "Ready"},
		"CacheTenant": {"spec.quota.maxMemoryBytes": 1, "status.memoryUsed": 1, "spec.tenantId": "b"},
	}
	for kind, fields := range removed {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			t.Run(kind+"/"+field, func(t *testing.T) { checkUnknown(t, kind, namespace, field, fields[field]) })
		}
	}
}

// checkUnknown creates an object with an unknown field under each kind of field validation. They are dry runs, so that a
// namespace does for all.
func checkUnknown(t *testing.T, kind, namespace, field string, value any) {
	t.Helper()
	object := validAround(kind, field)
	setField(object, field, value)
	create := func(validation string) answer {
		request := requestTo("POST", kind, namespace).Param("dryRun", metav1.DryRunAll)
		if validation != "" {
			request = request.Param("fieldValidation", validation)
		}
		return send(t, request, object)
	}
	complaint := fmt.Sprintf("unknown field %q", field)

	strict := create(metav1.FieldValidationStrict)
	if !apierrors.IsBadRequest(strict.err) || !strings.Contains(strict.err.Error(), complaint) {
		t.Errorf("strict: got %v, want a bad request that says %s", strict.err, complaint)
	}
	for _, validation := range []string{"", metav1.FieldValidationWarn} {
		warn := create(validation)
		if !slices.Equal(warn.warnings, []string{complaint}) {
			t.Errorf("validation %q: got warnings %q, want %s", validation, warn.warnings, complaint)
		}
		checkDropped(t, warn, field)
	}
	ignore := create(metav1.FieldValidationIgnore)
	if len(ignore.warnings) > 0 {
		t.Errorf("ignore: got warnings %q", ignore.warnings)
	}
	checkDropped(t, ignore, field)
}

func checkDropped(t *testing.T, got answer, field string) {
	t.Helper()
	if strings.Contains(field, ".claims[") {
		// Whatever a claim says, claims are refused.
		if got.code != http.StatusUnprocessableEntity {
			t.Errorf("got %v, want a refusal of claims", got.err)
		}
		return
	}
	if got.err != nil {
		t.Errorf("not accepted: %v", got.err)
		return
	}
	if hasField(got.object, field) {
		t.Errorf("%s is kept", field)
	}
}

// TestUnknownFieldsInEveryVerb checks the other ways to write an object, and that nothing unknown reaches the store.
func TestUnknownFieldsInEveryVerb(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, hostOnly("a"))
	const field = "spec.template." + unknown
	patch := map[string]any{"spec": map[string]any{"template": map[string]any{unknown: 1}}}
	whole := func() map[string]any {
		object := send(t, requestTo("GET", "CacheBackend", namespace).Name("a"), nil).object
		setField(object, field, 1)
		return object
	}
	for name, write := range map[string]func(validation string) answer{
		"update": func(validation string) answer {
			return send(t, requestTo("PUT", "CacheBackend", namespace).Name("a").Param("fieldValidation", validation), whole())
		},
		"update of status": func(validation string) answer {
			request := requestTo("PUT", "CacheBackend", namespace).Name("a").SubResource("status")
			return send(t, request.Param("fieldValidation", validation), whole())
		},
		"merge patch": func(validation string) answer {
			request := requestTo("PATCH", "CacheBackend", namespace).Name("a").SetHeader("Content-Type", "application/merge-patch+json")
			return send(t, request.Param("fieldValidation", validation), patch)
		},
		"JSON patch": func(validation string) answer {
			request := requestTo("PATCH", "CacheBackend", namespace).Name("a").SetHeader("Content-Type", "application/json-patch+json")
			operation := map[string]any{"op": "add", "path": "/spec/template", "value": map[string]any{unknown: 1}}
			return send(t, request.Param("fieldValidation", validation), []any{operation})
		},
	} {
		complaint := fmt.Sprintf("unknown field %q", field)
		strict := write(metav1.FieldValidationStrict)
		if strict.err == nil || !strings.Contains(strict.err.Error(), complaint) {
			t.Errorf("%s, strict: got %v, want %s", name, strict.err, complaint)
		}
		warn := write(metav1.FieldValidationWarn)
		if warn.err != nil || !slices.Equal(warn.warnings, []string{complaint}) {
			t.Errorf("%s, warn: got %v and warnings %q, want %s", name, warn.err, warn.warnings, complaint)
		}
		ignore := write(metav1.FieldValidationIgnore)
		if ignore.err != nil || len(ignore.warnings) > 0 {
			t.Errorf("%s, ignore: got %v and warnings %q", name, ignore.err, ignore.warnings)
		}
	}
	// An apply configuration never has unknown fields, whatever is asked for: that is so for Kubernetes' own kinds.
	request := requestTo("PATCH", "CacheBackend", namespace).Name("a").SetHeader("Content-Type", "application/apply-patch+yaml")
	request = request.Param("fieldManager", "test").Param("fieldValidation", metav1.FieldValidationIgnore)
	object := validAround("CacheBackend", field)
	setField(object, field, 1)
	if apply := send(t, request, object); apply.err == nil || !strings.Contains(apply.err.Error(), "."+field+": field not declared in schema") {
		t.Errorf("apply: got %v", apply.err)
	}

	stored, err := env.etcd.Get(t.Context(), keyOf("CacheBackend", namespace, "a"))
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatalf("reading the stored object: %v, %v", stored, err)
	}
	if strings.Contains(string(stored.Kvs[0].Value), unknown) {
		t.Errorf("stored: %s", stored.Kvs[0].Value)
	}
}

// validAround returns an object that is accepted when the field is unknown: what surrounds it is complete.
func validAround(kind, field string) map[string]any {
	object := map[string]any{
		"apiVersion": v1alpha1.APIVersion.String(),
		"kind":       kind,
		"metadata":   map[string]any{"name": "a"},
		"spec":       map[string]any{},
	}
	if kind == "CacheTenant" {
		setField(object, "spec.tenantID", "a")
	}
	for prefix, members := range map[string]map[string]any{
		"metadata.ownerReferences[0]": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"},
		"status.conditions[0]":        {"type": "A", "status": "True", "reason": "A"},
	} {
		surround(object, field, prefix, members)
	}
	if kind == "CacheBackend" {
		completeBackend(object, field)
	}
	return object
}

// completeBackend chooses the runtime, the type and the remote tier that the block of the field belongs to.
func completeBackend(object map[string]any, field string) {
	setField(object, "spec.runtime", "VLLM")
	provider := "LMCacheServer"
	switch {
	case strings.HasPrefix(field, "spec.hiCache"):
		setField(object, "spec.runtime", "SGLang")
		setField(object, "spec.type", "SGLangHiCache")
		setField(object, "spec.engineSelector.matchLabels", map[string]any{"app": "a"})
	case strings.HasPrefix(field, "spec.remoteStorage.redis"):
		setField(object, "spec.runtime", "SGLang")
		provider = "Redis"
	case strings.HasPrefix(field, "spec.remoteStorage.mooncake"):
		setField(object, "spec.integration.engineHostNetwork", true)
		provider = "Mooncake"
	}
	if strings.HasPrefix(field, "spec.remoteStorage.") || strings.HasPrefix(field, "spec.autoscaling.") {
		setField(object, "spec.remoteStorage", map[string]any{"provider": provider, "ownership": "Managed"})
	}
	const envVar = "spec.integration.engineOverrides.env[0]"
	for prefix, members := range map[string]map[string]any{
		"spec.hiCache":     {"sizeGB": 1},
		"spec.autoscaling": {"maxReplicas": 2},
		envVar:             {"name": "A"},
	} {
		surround(object, field, prefix, members)
	}
	// An empty source is refused, and so are two.
	if field == envVar+".valueFrom."+unknown {
		setField(object, envVar+".valueFrom.fieldRef", map[string]any{"fieldPath": "metadata.name"})
	}
}

// surround adds members beside a field that lies below the prefix.
func surround(object map[string]any, field, prefix string, members map[string]any) {
	if !strings.HasPrefix(field, prefix+".") {
		return
	}
	for name, value := range members {
		setField(object, prefix+"."+name, value)
	}
}
