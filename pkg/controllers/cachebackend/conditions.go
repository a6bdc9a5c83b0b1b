// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// maxForeignText bounds what others say in our messages: the note of an event may have
// 1024 bytes, and the message of a condition is copied into one.
const maxForeignText = 512

// verdict is what Ready says.
type verdict struct {
	ready   bool
	reason  string
	message string
}

func notReady(reason, format string, args ...any) verdict {
	return verdict{reason: reason, message: fmt.Sprintf(format, args...)}
}

// setReady publishes Ready.
func (p *pass) setReady(ready verdict) {
	p.set(v1alpha1.ConditionReady, ready.ready, ready.reason, ready.message)
}

// setDegraded publishes Degraded.
func (p *pass) setDegraded(kv kvVerdict) {
	if kv.degraded {
		p.set(v1alpha1.ConditionDegraded, true, kv.ready.reason, kv.ready.message)
		return
	}
	p.set(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonNotDegraded, "Nothing is stuck.")
}

// setProgressing derives Progressing from the final Ready: the pair says whether a backend
// that is not ready is on its way or stuck. What the cluster says against our objects
// stands here, where kubectl describe shows it even while an older state still serves.
func (p *pass) setProgressing(ready verdict, complaint string) {
	progressing, reason, message := false, ready.reason, ready.message
	switch {
	case ready.ready:
		reason, message = v1alpha1.ReasonSynced, "There is nothing left to roll out."
		if complaint != "" {
			message = "What is rolled out is ready."
		}
	case reason == v1alpha1.ReasonRolloutInProgress, reason == v1alpha1.ReasonAwaitingFirstKVEvent:
		progressing = true
	case reason == v1alpha1.ReasonReplicasUnavailable:
		reason = v1alpha1.ReasonDegraded
	}
	p.set(v1alpha1.ConditionProgressing, progressing, reason, message+complaint)
}

// set publishes a condition. Its transition time is kept unless the status flips.
func (p *pass) set(conditionType string, holds bool, reason, message string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	p.setStatus(conditionType, status, reason, message)
}

// setStatus is set for a condition that may be unknown.
func (p *pass) setStatus(conditionType string, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&p.next.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: p.next.ObservedGeneration,
		LastTransitionTime: p.timestamp(),
	})
}

func (p *pass) remove(conditionTypes ...string) {
	for _, conditionType := range conditionTypes {
		apimeta.RemoveStatusCondition(&p.next.Conditions, conditionType)
	}
}

// timestamp is now as the wire can hold it: a fraction of a second would be gone at the
// next read, and look like a change.
func (p *pass) timestamp() metav1.Time {
	return metav1.NewTime(p.now.Truncate(time.Second))
}

// find returns a condition of a status, nil when it is not published.
func find(status *v1alpha1.CacheBackendStatus, conditionType string) *metav1.Condition {
	return apimeta.FindStatusCondition(status.Conditions, conditionType)
}

// is says whether a condition is published with this status and reason.
func is(condition *metav1.Condition, status metav1.ConditionStatus, reason string) bool {
	return condition != nil && condition.Status == status && condition.Reason == reason
}

// because appends an error to a message, when there is one.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + cut(strings.TrimRight(err.Error(), "."), maxForeignText)
}

// rejection is what the cluster's rules say against our objects: a quota, a policy, an
// admission webhook, validation. Other errors say more about the moment than about the
// backend, and come with addresses that differ each time.
func rejection(err error) string {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return " The latest spec was rejected" + because(err) + "."
	}
	return ""
}

// cut shortens a text to a number of bytes, between characters.
func cut(text string, limit int) string {
	const ellipsis = "..."
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
