// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	icfuzzer "inferencecache.io/inferencecache/pkg/apis/inferencecache/fuzzer"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// TestRoundTrip takes random objects through the served version and JSON and back.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	filler := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, icfuzzer.Funcs), rand.NewSource(rand.Int63()), codecs)
	roundtrip.RoundTripTypesWithoutProtobuf(t, scheme, codecs, filler, nil)
}

// TestRoundTripCBOR takes random objects through CBOR, which is served behind a feature
// gate.
func TestRoundTripCBOR(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	filler := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, icfuzzer.Funcs), rand.NewSource(rand.Int63()), codecs)
	info := cbor.NewSerializer(scheme, scheme)
	codec := codecs.CodecForVersions(info, info, v1alpha1.APIVersion, inferencecache.SchemeGroupVersion)

	for kind, goType := range scheme.KnownTypes(inferencecache.SchemeGroupVersion) {
		if goType.PkgPath() != reflect.TypeFor[inferencecache.CacheBackend]().PkgPath() {
			continue // WatchEvent and the like
		}
		gvk := inferencecache.SchemeGroupVersion.WithKind(kind)
		t.Run(kind, func(t *testing.T) {
			for range 100 {
				roundTripCBOR(t, scheme, codec, filler.Fill, gvk)
			}
		})
	}
}

func roundTripCBOR(t *testing.T, scheme *runtime.Scheme, codec runtime.Codec, fill func(any), gvk schema.GroupVersionKind) {
	t.Helper()
	object, err := scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	fill(object)
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	data, err := runtime.Encode(codec, object)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	decoded, err := runtime.Decode(codec, data)
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if !apiequality.Semantic.DeepEqual(object, decoded) {
		t.Errorf("changed on the way (-sent +read):\n%s", cmp.Diff(object, decoded))
	}
}

// TestAbsentStaysAbsent asserts that no optional object appears in the JSON of an object
// that has none, which server-side apply would take for ownership.
func TestAbsentStaysAbsent(t *testing.T) {
	t.Parallel()
	for want, object := range map[string]any{
		`{"metadata":{},"spec":{"runtime":""},"status":{}}`:  &v1alpha1.CacheBackend{},
		`{"metadata":{},"spec":{},"status":{}}`:              &v1alpha1.CachePolicy{},
		`{"metadata":{},"spec":{"tenantID":""},"status":{}}`: &v1alpha1.CacheTenant{},
	} {
		got, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
