// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// maxInstance is the most that the events API takes as an instance.
const maxInstance = 128

// eventOf is the event with the news about a pod. Instance is the process that tells it.
func eventOf(pod *metav1.PartialObjectMetadata, n *news, instance string, now time.Time) *eventsv1.Event {
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: pod.Namespace, Name: eventName(pod, n.reason)},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: Name,
		ReportingInstance:   instance,
		Type:                corev1.EventTypeNormal,
		Reason:              n.reason,
		Action:              n.reason,
		Note:                n.note,
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod",
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
	}
	if backend := n.backend; backend != nil {
		event.Related = &corev1.ObjectReference{
			APIVersion: v1alpha1.APIVersion.String(), Kind: "CacheBackend",
			Namespace: backend.Namespace, Name: backend.Name, UID: backend.UID, ResourceVersion: backend.ResourceVersion,
		}
	}
	return event
}

// eventName depends on nothing but the pod and the reason, so that the cluster itself sees to
// it that an event is told once, whichever process tells it.
func eventName(pod *metav1.PartialObjectMetadata, reason string) string {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s/%s", pod.UID, reason)
	suffix := fmt.Sprintf(".%016x", hash.Sum64())
	prefix := pod.Name[:min(len(pod.Name), validation.DNS1123SubdomainMaxLength-len(suffix))]
	return strings.TrimRight(prefix, "-.") + suffix
}

func instanceOn(host string) string {
	instance := Name + "-" + host
	return instance[:min(len(instance), maxInstance)]
}
