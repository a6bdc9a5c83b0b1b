// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// manifest returns the manifest of a CacheBackend named "a".
func manifest(spec string) string {
	return "apiVersion: inferencecache.io/v1alpha1\nkind: CacheBackend\nmetadata: {name: a}\nspec: " + spec + "\n"
}

// containsAll fails the test for each text that is missing.
func containsAll(t *testing.T, output string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			t.Errorf("%q is missing in:\n%s", text, output)
		}
	}
}

// TestKubectlExplain checks that the documentation of every field is at hand, warnings for operators and values included.
func TestKubectlExplain(t *testing.T) {
	t.Parallel()
	for kind := range resources {
		stdout, _ := kubectl(t, "", "explain", strings.ToLower(kind))
		containsAll(t, stdout, "GROUP:      inferencecache.io", "KIND:       "+kind, "VERSION:    v1alpha1", "spec\t", "status\t")
		if strings.Contains(stdout, "<no description>") {
			t.Errorf("a description is missing: %s", stdout)
		}
	}
	stdout, _ := kubectl(t, "", "explain", "cachebackend.spec.remoteStorage", "--recursive")
	containsAll(t, stdout,
		"provider\t<string> -required-", "enum: LMCacheServer, Mooncake, Redis", "ownership\t<string> -required-", "endpoint\t<string>",
		"redis\t<RedisSpec>", "lmCacheServer\t<LMCacheServerSpec>", "mooncake\t<MooncakeSpec>", "limits\t<map[string]Quantity>")
	for field, text := range map[string]string{
		"cachebackend.spec.integration.engineOverrides":       "fragile",
		"cachebackend.spec.remoteStorage.mooncake.command":    "50051",
		"cachebackend.spec.integration.engineHostNetwork":     "created afterwards",
		"cachebackend.spec.remoteStorage.lmCacheServer.image": "wire version",
		"cachepolicy.spec.eviction":                           "LFU",
		"cachetenant.spec.quota.maxIndexEntries":              "FIELD: maxIndexEntries <integer>",
	} {
		stdout, _ := kubectl(t, "", "explain", field)
		containsAll(t, strings.Join(strings.Fields(stdout), " "), text)
	}
}

// TestKubectlDiff checks the preview of a change: exit code 1 and what the server would make of it, and nothing once done.
func TestKubectlDiff(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, manifest("{runtime: VLLM}"), "apply", "-n", namespace, "-f", "-")
	changed := manifest("{runtime: VLLM, replicas: 3}")
	containsAll(t, kubectlFails(t, 1, changed, "diff", "-n", namespace, "-f", "-"), "-  replicas: 1", "+  replicas: 3", "-  generation: 1", "+  generation: 2")
	kubectl(t, changed, "apply", "-n", namespace, "-f", "-")
	if stdout, _ := kubectl(t, changed, "diff", "-n", namespace, "-f", "-"); stdout != "" {
		t.Errorf("diff after apply: %s", stdout)
	}
}

// TestKubectlPatch changes an object in every way that kubectl patches, labels and annotates.
func TestKubectlPatch(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, hostOnly("a"))
	for _, args := range [][]string{
		{"patch", "cb", "a", "--type=merge", "-p", `{"spec":{"replicas":2}}`},
		{"patch", "cb", "a", "--type=json", "-p", `[{"op":"test","path":"/spec/replicas","value":2},{"op":"replace","path":"/spec/replicas","value":3}]`},
		{"patch", "cb", "a", "-p", `{"spec":{"lmCache":{"chunkSizeTokens":64}}}`}, // Strategic merge.
		{"label", "cb", "a", "team=kv"},
		{"annotate", "cb", "a", "inferencecache.io/lmcache-kernel-check=strict"},
		{"patch", "cb", "a", "--subresource=status", "--type=merge", "-p", `{"status":{"matchedEnginePods":5}}`},
	} {
		kubectl(t, "", append(args, "-n", namespace)...)
	}
	backend, err := backendsIn(namespace).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *backend.Spec.Replicas != 3 || *backend.Spec.LMCache.ChunkSizeTokens != 64 || backend.Labels["team"] != "kv" ||
		backend.Annotations[v1alpha1.AnnotationKernelCheck] != "strict" || *backend.Status.MatchedEnginePods != 5 || backend.Generation != 4 {
		t.Errorf("got %+v", backend)
	}
	containsAll(t, kubectlFails(t, 1, "", "annotate", "cb", "a", "--overwrite", "inferencecache.io/lmcache-kernel-check=Strict", "-n", namespace),
		"metadata.annotations[inferencecache.io/lmcache-kernel-check]: Invalid value")
	containsAll(t, kubectlFails(t, 1, "", "patch", "cb", "a", "--type=json", "-p", `[{"op":"test","path":"/spec/replicas","value":9}]`, "-n", namespace),
		"The request is invalid")
	containsAll(t, kubectlFails(t, 1, "", "scale", "cb", "a", "--replicas=1", "-n", namespace), "NotFound")
}

// TestKubectlWait checks that an external tier is ready with the very write that names it, so that a script may go on.
func TestKubectlWait(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	ready := []string{"wait", "--for=condition=Ready", "cb/a", "-n", namespace, "--timeout=0"} // 0 looks once.
	kubectl(t, manifest("{runtime: VLLM, remoteStorage: {provider: LMCacheServer, ownership: External, endpoint: 'kv.example.net:1'}}"), "create", "-n", namespace, "-f", "-")
	kubectl(t, "", ready...)
	kubectl(t, "", "patch", "cb", "a", "-n", namespace, "--type=merge", "-p", `{"spec":{"remoteStorage":{"endpoint":"lm://kv.example.net:2"}}}`)
	kubectl(t, "", ready...)
	kubectl(t, "", "wait", "--for=jsonpath={.status.endpoint}=lm://kv.example.net:2", "cb/a", "-n", namespace, "--timeout=0")
}

// TestKubectlServerSideApply checks what an operator is told about a conflict.
func TestKubectlServerSideApply(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	args := []string{"apply", "--server-side", "-n", namespace, "-f", "-", "--field-manager"}
	kubectl(t, manifest("{runtime: VLLM, replicas: 2}"), append(args, "team-a")...)
	changed := manifest("{runtime: VLLM, replicas: 3}")
	containsAll(t, kubectlFails(t, 1, changed, append(args, "team-b")...), `conflict with "team-a": .spec.replicas`, "--force-conflicts")
	kubectl(t, changed, append(args, "team-b", "--force-conflicts")...)
	if stdout, _ := kubectl(t, "", "get", "cb", "a", "-n", namespace, "-o", "jsonpath={.spec.replicas}"); stdout != "3" {
		t.Errorf("replicas: %s", stdout)
	}
}

// TestKubectlDryRun checks that a server-side dry run answers as the real request would and stores nothing.
func TestKubectlDryRun(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	stdout, _ := kubectl(t, manifest("{runtime: VLLM}"), "create", "--dry-run=server", "-n", namespace, "-f", "-", "-o", "yaml")
	containsAll(t, stdout, "replicas: 1", "firstEventTimeout: 5m0s", "uid: ")
	containsAll(t, kubectlFails(t, 1, manifest("{runtime: TensorRT}"), "create", "--dry-run=server", "-n", namespace, "-f", "-"), "spec.runtime")
	if _, err := backendsIn(namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: got %v, want not found", err)
	}
}

// TestKubectlDefaults checks that `-o yaml` shows what is in force, not just what was written.
func TestKubectlDefaults(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	kubectl(t, manifest("{runtime: VLLM}"), "create", "-n", namespace, "-f", "-")
	stdout, _ := kubectl(t, "", "get", "cb", "a", "-n", namespace, "-o", "yaml")
	_, spec, _ := strings.Cut(stdout, "\nspec:\n")
	want := `  deploymentKind: Deployment
  integration:
    failOpen: true
    mode: Offload
    role: ReadWrite
  observation:
    firstEventTimeout: 5m0s
  replicas: 1
  runtime: VLLM
  type: LMCache
`
	if got, _, _ := strings.Cut(spec, "status:"); got != want {
		t.Errorf("got spec\n%s", got)
	}
}

// TestKubectlRejection checks that everything that is wrong with a manifest is said at once, and a warning with what is
// admitted.
func TestKubectlRejection(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	bad := manifest("{runtime: vllm, type: LM, replicas: -1, lmCache: {workerPort: 0}, remoteStorage: {provider: Redis}, template: {terminationGracePeriodSeconds: -1}}")
	containsAll(t, kubectlFails(t, 1, bad, "create", "-n", namespace, "-f", "-"), `The CacheBackend "a" is invalid`,
		`* spec.runtime: Unsupported value: "vllm": supported values: "SGLang", "VLLM"`, "* spec.type: Unsupported value", "* spec.replicas: Invalid value: -1",
		"* spec.lmCache.workerPort: Invalid value: 0", "* spec.remoteStorage.ownership: Required value", "* spec.template.terminationGracePeriodSeconds: Invalid value: -1")
	containsAll(t, kubectlFails(t, 1, manifest("{runtime: VLLM, replicsa: 2}"), "create", "-n", namespace, "-f", "-"), `unknown field "spec.replicsa"`)

	mooncake := manifest("{runtime: VLLM, remoteStorage: {provider: Mooncake, ownership: External, endpoint: 'mesh:50051'}}")
	stdout, stderr := kubectl(t, mooncake, "create", "-n", namespace, "-f", "-")
	containsAll(t, stdout, "created")
	if !strings.HasPrefix(stderr, "Warning: spec.integration.engineHostNetwork") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("got warnings %q", stderr)
	}
}

// TestKubectlRaw checks the discovery document of the group.
func TestKubectlRaw(t *testing.T) {
	t.Parallel()
	stdout, _ := kubectl(t, "", "get", "--raw", "/apis/inferencecache.io/v1alpha1")
	var list metav1.APIResourceList
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]metav1.APIResource{}
	for _, resource := range list.APIResources {
		found[resource.Name] = resource
		if !strings.Contains(resource.Name, "/") && strings.Join(resource.Categories, " ") != "inferencecache" {
			t.Errorf("%s has categories %q", resource.Name, resource.Categories)
		}
		if name, sub, _ := strings.Cut(resource.Name, "/"); sub != "" && sub != "status" {
			t.Errorf("%s has a subresource %s", name, sub)
		}
	}
	for kind, resource := range resources {
		main, status := found[resource.Resource], found[resource.Resource+"/status"]
		if main.Kind != kind || !main.Namespaced || main.SingularName != strings.ToLower(kind) ||
			main.Verbs.String() != "[create delete deletecollection get list patch update watch]" {
			t.Errorf("%s: got %+v", kind, main)
		}
		if status.Kind != kind || status.Verbs.String() != "[get patch update]" {
			t.Errorf("%s: got status %+v", kind, status)
		}
	}
}
