// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func podNamed(name string, uid types.UID) *metav1.PartialObjectMetadata {
	pod := newPod()
	pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion = "ml", name, uid, "7"
	return pod
}

func TestEventOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 250_000_000, time.UTC)
	pod := podNamed("engine-0", "P1")
	got := eventOf(pod, &news{reason: "Reason", note: "What there is to say.", backend: storedBackend}, "here", now)
	want := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: "ml", Name: got.Name},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: "engine-pod-events",
		ReportingInstance:   "here",
		Action:              "Reason",
		Reason:              "Reason",
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ml", Name: "engine-0", UID: "P1", ResourceVersion: "7"},
		Related:             &corev1.ObjectReference{APIVersion: "inferencecache.io/v1alpha1", Kind: "CacheBackend", Namespace: "ml", Name: "cache.eu", UID: "U1"},
		Note:                "What there is to say.",
		Type:                "Normal",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if got := eventOf(pod, &news{reason: "Reason"}, "here", now); got.Related != nil {
		t.Errorf("it is about %v too", got.Related)
	}
}

// TestEventName: one name for each pod and reason, that can be one.
func TestEventName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 235) + ".b" + strings.Repeat("c", 16)
	names := map[string]string{}
	for _, pod := range []*metav1.PartialObjectMetadata{
		podNamed("engine-0", "P1"), podNamed("engine-0", "P2"), podNamed("engine-1", "P3"), podNamed(long, "P4"), podNamed(long, "P5"),
	} {
		for _, reason := range []string{"Injected", "Skipped"} {
			name, told := eventName(pod, reason), pod.Name+string(pod.UID)+reason
			if again := eventName(pod, reason); again != name {
				t.Errorf("%s is named %s, and then %s", told, name, again)
			}
			if wrong := validation.IsDNS1123Subdomain(name); len(wrong) != 0 {
				t.Errorf("%s: %v", name, wrong)
			}
			if other, ok := names[name]; ok {
				t.Errorf("%s is the name of %s and of %s", name, told, other)
			}
			names[name] = told
		}
	}
	if got := eventName(podNamed("engine-0", "P1"), "Injected"); !strings.HasPrefix(got, "engine-0.") {
		t.Errorf("%s does not begin with the name of its pod", got)
	}
}

func TestInstanceOn(t *testing.T) {
	t.Parallel()
	if got := instanceOn("host"); got != "engine-pod-events-host" {
		t.Errorf("got %s", got)
	}
	if got := instanceOn(strings.Repeat("h", 200)); len(got) != maxInstance {
		t.Errorf("%s has %d bytes", got, len(got))
	}
}
