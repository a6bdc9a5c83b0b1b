// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/install"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/validation"
)

const samplesNamespace = "inference-cache-samples"

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	install.Install(s)
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// sample is one object of artifacts/samples as it was written.
type sample struct {
	file string
	obj  runtime.Object
}

func samples(t *testing.T, s *runtime.Scheme) []sample {
	t.Helper()
	var all []sample
	for _, d := range readDocuments(t, glob(t, "samples/*.yaml")...) {
		all = append(all, sample{file: filepath.Base(d.file), obj: d.decode(t, s)})
	}
	return all
}

// backends are the CacheBackends among the samples, by file.
func backends(t *testing.T, s *runtime.Scheme) map[string]*v1alpha1.CacheBackend {
	t.Helper()
	found := map[string]*v1alpha1.CacheBackend{}
	for _, sample := range samples(t, s) {
		if backend, ok := sample.obj.(*v1alpha1.CacheBackend); ok {
			found[sample.file] = backend
		}
	}
	return found
}

// check does what the API server does with a new object: defaults, then both kinds of validation.
func check(t *testing.T, s *runtime.Scheme, obj runtime.Object) (field.ErrorList, []string) {
	t.Helper()
	obj = obj.DeepCopyObject()
	s.Default(obj)
	errs := s.Validate(t.Context(), nil, obj)
	convert := func(into runtime.Object) {
		if err := s.Convert(obj, into, nil); err != nil {
			t.Fatal(err)
		}
	}
	switch obj.(type) {
	case *v1alpha1.CacheBackend:
		backend := &inferencecache.CacheBackend{}
		convert(backend)
		return append(errs, validation.ValidateCacheBackend(backend)...), validation.WarningsForCacheBackendCreate(backend)
	case *v1alpha1.CachePolicy:
		policy := &inferencecache.CachePolicy{}
		convert(policy)
		return append(errs, validation.ValidateCachePolicy(policy)...), nil
	case *v1alpha1.CacheTenant:
		tenant := &inferencecache.CacheTenant{}
		convert(tenant)
		return append(errs, validation.ValidateCacheTenant(tenant)...), nil
	default:
		t.Fatalf("%T is not a kind of ours", obj)
		return nil, nil
	}
}

func TestSamplesAreValid(t *testing.T) {
	s := newScheme(t)
	policies, tenants, names := 0, map[string]string{}, map[string]string{}
	for i, sample := range samples(t, s) {
		if ns, ok := sample.obj.(*corev1.Namespace); ok {
			// kubectl applies files in the order of their names.
			if i != 0 || ns.Name != samplesNamespace {
				t.Errorf("%s: namespace %s is object %d, want %s first", sample.file, ns.Name, i, samplesNamespace)
			}
			continue
		}
		meta := sample.obj.(metav1.Object)
		if meta.GetNamespace() != samplesNamespace {
			t.Errorf("%s: namespace %q", sample.file, meta.GetNamespace())
		}
		id := fmt.Sprintf("%T %s", sample.obj, meta.GetName())
		if other, ok := names[id]; ok {
			t.Errorf("%s: same name as in %s", sample.file, other)
		}
		names[id] = sample.file

		errs, warnings := check(t, s, sample.obj)
		if len(errs) != 0 {
			t.Errorf("%s: %v", sample.file, errs.ToAggregate())
		}
		if len(warnings) != 0 {
			t.Errorf("%s: warnings %q", sample.file, warnings)
		}
		switch obj := sample.obj.(type) {
		case *v1alpha1.CachePolicy:
			policies++
		case *v1alpha1.CacheTenant:
			if other, ok := tenants[obj.Spec.TenantID]; ok {
				t.Errorf("%s: same tenant as in %s", sample.file, other)
			}
			tenants[obj.Spec.TenantID] = sample.file
		}
	}
	if policies != 1 || len(tenants) < 2 {
		t.Errorf("%d policies and %d tenants, want 1 and 2 or more", policies, len(tenants))
	}
}

// TestSamplesHaveNoStatus: it would be dropped, and mislead the reader.
func TestSamplesHaveNoStatus(t *testing.T) {
	for file, backend := range backends(t, newScheme(t)) {
		if diff := cmp.Diff(v1alpha1.CacheBackendStatus{}, backend.Status); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestSelectorsDoNotOverlap(t *testing.T) {
	seen := map[string]string{}
	for file, backend := range backends(t, newScheme(t)) {
		if backend.Spec.EngineSelector == nil || len(backend.Spec.EngineSelector.MatchLabels) == 0 {
			t.Errorf("%s: selects no engine", file)
			continue
		}
		selector := fmt.Sprint(backend.Spec.EngineSelector.MatchLabels)
		if other, ok := seen[selector]; ok {
			t.Errorf("%s: same selector as in %s", file, other)
		}
		seen[selector] = file
	}
}

func TestOneSampleHasOverrides(t *testing.T) {
	var files []string
	for file, backend := range backends(t, newScheme(t)) {
		if backend.Spec.Integration != nil && backend.Spec.Integration.EngineOverrides != nil {
			files = append(files, file)
		}
	}
	if len(files) != 1 {
		t.Errorf("overrides in %v, want one file", files)
	}
}

// shape is what decides how a cache is provided and wired.
type shape struct {
	Runtime   v1alpha1.Runtime
	Type      v1alpha1.CacheType
	Provider  v1alpha1.StorageProvider
	Ownership v1alpha1.StorageOwnership
	Mode      v1alpha1.IntegrationMode
}

// backend is the smallest one of the shape.
func (sh shape) backend() *v1alpha1.CacheBackend {
	backend := &v1alpha1.CacheBackend{
		ObjectMeta: metav1.ObjectMeta{Name: "shape", Namespace: samplesNamespace},
		Spec: v1alpha1.CacheBackendSpec{
			Runtime:        sh.Runtime,
			Type:           sh.Type,
			Integration:    &v1alpha1.IntegrationSpec{Mode: sh.Mode},
			EngineSelector: &v1alpha1.EngineSelector{MatchLabels: map[string]string{"app": "engine"}},
		},
	}
	if sh.Type == v1alpha1.CacheTypeSGLangHiCache {
		backend.Spec.HiCache = &v1alpha1.HiCacheSpec{Ratio: "2"}
	}
	if sh.Provider != "" {
		backend.Spec.RemoteStorage = &v1alpha1.RemoteStorageSpec{Provider: sh.Provider, Ownership: sh.Ownership}
		if sh.Ownership == v1alpha1.StorageOwnershipExternal {
			backend.Spec.RemoteStorage.Endpoint = "cache.example.net:1234"
		}
	}
	return backend
}

// allShapes are the shapes that can be written, supported or not.
func allShapes() []shape {
	type remote struct {
		provider  v1alpha1.StorageProvider
		ownership v1alpha1.StorageOwnership
	}
	remotes := []remote{{}}
	for _, provider := range []v1alpha1.StorageProvider{
		v1alpha1.StorageProviderRedis, v1alpha1.StorageProviderLMCacheServer, v1alpha1.StorageProviderMooncake,
	} {
		for _, ownership := range []v1alpha1.StorageOwnership{
			v1alpha1.StorageOwnershipManaged, v1alpha1.StorageOwnershipExternal,
		} {
			remotes = append(remotes, remote{provider, ownership})
		}
	}
	var shapes []shape
	var runtimes []v1alpha1.Runtime
	var types []v1alpha1.CacheType
	for _, pair := range engine.SupportedPairs() {
		if !slices.Contains(runtimes, pair.Runtime) {
			runtimes = append(runtimes, pair.Runtime)
		}
		if !slices.Contains(types, pair.Type) {
			types = append(types, pair.Type)
		}
	}
	for _, engineRuntime := range runtimes {
		for _, cacheType := range types {
			for _, r := range remotes {
				for _, mode := range []v1alpha1.IntegrationMode{
					v1alpha1.IntegrationModeOffload, v1alpha1.IntegrationModeEventsOnly,
				} {
					shapes = append(shapes, shape{engineRuntime, cacheType, r.provider, r.ownership, mode})
				}
			}
		}
	}
	return shapes
}

// TestEverySupportedShapeHasASample asks validation what is supported, so that a new engine or provider fails here
// until it has a sample.
func TestEverySupportedShapeHasASample(t *testing.T) {
	s := newScheme(t)
	supported := map[shape]bool{}
	for _, sh := range allShapes() {
		if errs, _ := check(t, s, sh.backend()); len(errs) == 0 {
			supported[sh] = true
		}
	}
	if len(supported) == 0 {
		t.Fatal("validation accepts nothing")
	}
	shown := map[shape]bool{}
	for _, backend := range backends(t, s) {
		s.Default(backend)
		sh := shape{Runtime: backend.Spec.Runtime, Type: backend.Spec.Type, Mode: backend.Spec.Integration.Mode}
		if remote := backend.Spec.RemoteStorage; remote != nil {
			sh.Provider, sh.Ownership = remote.Provider, remote.Ownership
		}
		shown[sh] = true
	}
	if diff := cmp.Diff(supported, shown); diff != "" {
		t.Errorf("shapes (-supported +shown):\n%s", diff)
	}
}

// TestFeaturesHaveASample is for what a shape does not tell.
func TestFeaturesHaveASample(t *testing.T) {
	features := map[string]func(*v1alpha1.CacheBackendSpec) bool{
		"HiCache by ratio": func(s *v1alpha1.CacheBackendSpec) bool { return s.HiCache != nil && s.HiCache.Ratio != "" },
		"HiCache by size":  func(s *v1alpha1.CacheBackendSpec) bool { return s.HiCache != nil && s.HiCache.SizeGB != nil },
		"autoscaling":      func(s *v1alpha1.CacheBackendSpec) bool { return s.Autoscaling != nil },
		"StatefulSet":      func(s *v1alpha1.CacheBackendSpec) bool { return s.DeploymentKind == v1alpha1.DeploymentKindStatefulSet },
		"template":         func(s *v1alpha1.CacheBackendSpec) bool { return s.Template != nil },
		"provider resources": func(s *v1alpha1.CacheBackendSpec) bool {
			return s.RemoteStorage != nil && s.RemoteStorage.LMCacheServer != nil && s.RemoteStorage.LMCacheServer.Resources != nil
		},
		"host network": func(s *v1alpha1.CacheBackendSpec) bool {
			return s.Integration != nil && s.Integration.EngineHostNetwork
		},
		"host memory": func(s *v1alpha1.CacheBackendSpec) bool { return s.LMCache != nil && s.LMCache.HostMemory != nil },
	}
	all := backends(t, newScheme(t))
	for name, has := range features {
		found := false
		for _, backend := range all {
			found = found || has(&backend.Spec)
		}
		if !found {
			t.Errorf("no sample shows %s", name)
		}
	}
}

// TestSamplesSayWhatTheyAreFor wants two lines of comment above each object.
func TestSamplesSayWhatTheyAreFor(t *testing.T) {
	for _, d := range readDocuments(t, glob(t, "samples/*.yaml")...) {
		comment, rest, _ := strings.Cut(strings.TrimPrefix(string(d.yaml), licenceHeader), "apiVersion:")
		lines := strings.Split(strings.TrimSpace(comment), "\n")
		if rest == "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "# ") || !strings.HasPrefix(lines[1], "# ") {
			t.Errorf("%s: want two lines of comment, have %q", d.file, lines)
		}
	}
}
