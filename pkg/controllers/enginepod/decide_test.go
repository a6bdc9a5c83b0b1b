// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func injected(by, uid string) map[string]string {
	return map[string]string{v1alpha1.AnnotationInjectedBy: by, v1alpha1.AnnotationInjectedByUID: uid}
}

func optedOut(value, mark string) map[string]string {
	return map[string]string{v1alpha1.AnnotationSkipInject: value, v1alpha1.AnnotationInjectSkipped: mark}
}

func merged(all ...map[string]string) map[string]string {
	annotations := map[string]string{}
	for _, one := range all {
		maps.Copy(annotations, one)
	}
	return annotations
}

var errDown = errors.New("the server is down")

// storedBackend is the one that exists; of another the server cannot say whether it does.
var storedBackend = &v1alpha1.CacheBackend{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "cache.eu", UID: "U1"}}

// lookUp is a server, which notes what it is asked for.
func lookUp(asked *[]string) func(types.NamespacedName) (*v1alpha1.CacheBackend, error) {
	return func(key types.NamespacedName) (*v1alpha1.CacheBackend, error) {
		*asked = append(*asked, key.String())
		switch key.String() {
		case "ml/cache.eu":
			return storedBackend, nil
		case "ml/unreadable":
			return nil, errDown
		default:
			return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupName, Resource: "cachebackends"}, key.Name)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const mark = v1alpha1.InjectSkippedByAnnotation
	name253, label63 := strings.Repeat("n", 253), strings.Repeat("l", 63)
	for name, tt := range map[string]struct {
		annotations map[string]string
		// filtered is for those whose annotations no server needs to be asked about.
		filtered bool
		asked    string
		want     string
	}{
		"none":                        {annotations: nil, filtered: true},
		"foreign":                     {annotations: map[string]string{"example.com/injected-by": "ml/cache.eu"}, filtered: true},
		"opted out":                   {annotations: optedOut("true", mark), want: v1alpha1.EventSkippedByOperator},
		"opted out by a text":         {annotations: optedOut("TICKET-1", mark), want: v1alpha1.EventSkippedByOperator},
		"opted out, a uid left":       {annotations: merged(injected("", "U1"), optedOut("1", mark)), want: v1alpha1.EventSkippedByOperator},
		"mark without opt-out":        {annotations: optedOut("", mark), filtered: true},
		"mark with a no":              {annotations: optedOut("off", mark), filtered: true},
		"opt-out without mark":        {annotations: optedOut("true", ""), filtered: true},
		"opt-out with another mark":   {annotations: optedOut("true", mark+" "), filtered: true},
		"uid alone":                   {annotations: injected("", "U1"), filtered: true},
		"injected":                    {annotations: injected("ml/cache.eu", "U1"), asked: "ml/cache.eu", want: v1alpha1.EventInjectedByCacheBackend},
		"injected and opted out":      {annotations: merged(injected("ml/cache.eu", "U1"), optedOut("true", mark)), asked: "ml/cache.eu", want: v1alpha1.EventInjectedByCacheBackend},
		"malformed and opted out":     {annotations: merged(injected("ml", "U1"), optedOut("true", mark))},
		"former uid":                  {annotations: injected("ml/cache.eu", "U0"), asked: "ml/cache.eu"},
		"uid in other case":           {annotations: injected("ml/cache.eu", "u1"), asked: "ml/cache.eu"},
		"no uid":                      {annotations: injected("ml/cache.eu", "")},
		"no backend":                  {annotations: injected("ml/gone", "U1"), asked: "ml/gone"},
		"unreadable":                  {annotations: injected("ml/unreadable", "U1"), asked: "ml/unreadable", want: "error"},
		"longest names":               {annotations: injected(label63+"/"+name253, "U1"), asked: label63 + "/" + name253},
		"long name":                   {annotations: injected("ml/"+name253+"n", "U1")},
		"long namespace":              {annotations: injected(label63+"l/cache", "U1")},
		"no slash":                    {annotations: injected("cache.eu", "U1")},
		"two slashes":                 {annotations: injected("ml/cache.eu/x", "U1")},
		"slash at the end":            {annotations: injected("ml/cache.eu/", "U1")},
		"no namespace":                {annotations: injected("/cache.eu", "U1")},
		"no name":                     {annotations: injected("ml/", "U1")},
		"namespace is no label":       {annotations: injected("m.l/cache.eu", "U1")},
		"name in upper case":          {annotations: injected("ml/Cache.eu", "U1")},
		"space before":                {annotations: injected(" ml/cache.eu", "U1")},
		"space after":                 {annotations: injected("ml/cache.eu ", "U1")},
		"name with an underscore":     {annotations: injected("ml/cache_eu", "U1")},
		"name begins with a dot":      {annotations: injected("ml/.cache", "U1")},
		"namespace begins with a bar": {annotations: injected("-ml/cache.eu", "U1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := candidate(tt.annotations); got == tt.filtered {
				t.Errorf("candidate: %t", got)
			}
			var asked []string
			n, err := decide(tt.annotations, lookUp(&asked))
			got := ""
			switch {
			case err != nil:
				got = "error"
				if n != nil || !errors.Is(err, errDown) || !strings.Contains(err.Error(), tt.asked) {
					t.Errorf("got %v and error %v", n, err)
				}
			case n != nil:
				got = n.reason
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if diff := cmp.Diff(tt.asked, strings.Join(asked, " ")); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNews: what people read, and what the event refers to.
func TestNews(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		annotations map[string]string
		want        news
	}{
		{injected("ml/cache.eu", "U1"), news{
			reason: "InjectedByCacheBackend", note: `Wired to CacheBackend "ml/cache.eu".`, backend: storedBackend,
		}},
		{optedOut("yes", v1alpha1.InjectSkippedByAnnotation), news{
			reason: "SkippedByOperator",
			note:   "Not wired to a cache: the pod opts out by its annotation inferencecache.io/skip-inject (skip-inject-annotation).",
		}},
	} {
		var asked []string
		got, err := decide(tt.annotations, lookUp(&asked))
		if err != nil || got == nil {
			t.Fatalf("got %v and error %v", got, err)
		}
		if diff := cmp.Diff(tt.want, *got, cmp.AllowUnexported(news{})); diff != "" {
			t.Errorf("news (-want +got):\n%s", diff)
		}
	}
}
