// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

const (
	// probeWindow is how long the answer of a functional probe holds. A backend is not
	// probed again within it, whatever the answer was.
	probeWindow = 30 * time.Second
	// minProbeRequeue keeps a pass from coming back right before the window ends.
	minProbeRequeue = time.Second
)

// Probe is what a pass knows of the functional probe of a backend.
type Probe struct {
	// Enabled says that there is a cache server to ask.
	Enabled bool
	// Answer is how the latest call ended, nil when nothing was asked in this process.
	Answer *ProbeAnswer
}

// ProbeAnswer is how a functional probe ended.
type ProbeAnswer struct {
	// At is when the call was made.
	At time.Time
	// Result is meaningless when there is an error.
	Result cacheserver.ProbeResult
	// Err says why there is no usable result.
	Err error
	// Published says that the backend's status has had what follows from the answer.
	Published bool
}

// probeGate is what decides whether a backend that is ready so far also does its work, as
// the cache server's own trial shows it.
type probeGate struct {
	upstream verdict
	// enabled and bypassed say whether the cluster and the backend have the gate.
	enabled  bool
	bypassed bool
	// stored is the condition as it is published, nil for one that says nothing.
	stored *metav1.Condition
	answer *ProbeAnswer
	now    time.Time
}

// probeVerdict is what the gate makes of a backend.
type probeVerdict struct {
	ready verdict
	// condition is what to publish.
	condition probeCondition
	// call says that the backend is to be probed and then judged anew.
	call bool
	// answered says that the verdict follows from an answer that was not published before.
	answered bool
	// recheck is when to judge again, zero for never.
	recheck time.Duration
}

// probeCondition is the condition FunctionalProbeOK. Without a status it stays as it is.
type probeCondition struct {
	remove  bool
	status  metav1.ConditionStatus
	reason  string
	message string
}

// judge applies the gate; the first case that holds counts.
func (g probeGate) judge() probeVerdict {
	switch {
	case !g.enabled:
		return probeVerdict{ready: g.upstream, condition: probeCondition{remove: true}}
	case !g.upstream.ready:
		return probeVerdict{ready: g.upstream}
	case g.bypassed:
		return probeVerdict{ready: g.upstream, condition: probeCondition{
			status: metav1.ConditionTrue, reason: v1alpha1.ReasonProbeBypassed,
			message: "The annotation " + v1alpha1.AnnotationSkipFunctionalProbe + " switches the probe off.",
		}}
	case !g.inWindow():
		return probeVerdict{ready: g.standing(), call: true}
	}
	verdict := probeVerdict{ready: g.standing()}
	if !g.answer.Published {
		verdict = g.judgeAnswer()
		verdict.answered = true
	}
	verdict.recheck = max(probeWindow-g.now.Sub(g.answer.At), minProbeRequeue)
	return verdict
}

// inWindow says whether the latest answer still counts. One that was published and is gone
// from the status was about an earlier life of the backend.
func (g probeGate) inWindow() bool {
	if g.answer == nil || g.now.Sub(g.answer.At) >= probeWindow {
		return false
	}
	return g.stored != nil || !g.answer.Published
}

// standing is Ready under the verdict that is published: a stage that failed keeps it down.
func (g probeGate) standing() verdict {
	if g.stored != nil && g.stored.Status == metav1.ConditionFalse {
		return probeFailed(g.stored.Reason, g.stored.Message)
	}
	return g.upstream
}

// judgeAnswer is about an answer that is not published yet. That the server cannot be asked
// says nothing about the backend, so it neither lowers Ready nor takes back what a stage
// that failed has said.
func (g probeGate) judgeAnswer() probeVerdict {
	if g.answer.Err != nil {
		if ready := g.standing(); !ready.ready {
			return probeVerdict{ready: ready}
		}
		return probeVerdict{ready: g.upstream, condition: probeCondition{
			status: metav1.ConditionUnknown, reason: v1alpha1.ReasonProbeError,
			message: cut("The cache server cannot be asked: "+g.answer.Err.Error(), maxForeignText),
		}}
	}
	stage, message, failed := g.answer.Result.FailedStage()
	if !failed {
		return probeVerdict{ready: g.upstream, condition: probeCondition{
			status: metav1.ConditionTrue, reason: v1alpha1.ReasonProbeOK,
			message: "Every stage of the functional probe passed or was left out.",
		}}
	}
	reason, hint := probeFailure(stage)
	if message == "" {
		message = hint
	}
	message = cut(message, maxForeignText)
	return probeVerdict{
		ready:     probeFailed(reason, message),
		condition: probeCondition{status: metav1.ConditionFalse, reason: reason, message: message},
	}
}

func probeFailed(reason, message string) verdict {
	return notReady(reason, "The functional probe failed: %s", message)
}

// probeFailure returns the reason for a stage that failed, and what to say when the cache
// server does not say more.
func probeFailure(stage string) (reason, hint string) {
	switch stage {
	case cacheserver.StageIngest:
		return v1alpha1.ReasonProbeIngestFailed, "an event that was sent did not reach the index; look into the cache server's ingestion."
	case cacheserver.StageRouting:
		return v1alpha1.ReasonProbeRoutingFailed, "a look-up did not find what was indexed; look into the cache server's hash scheme and routing."
	default:
		return v1alpha1.ReasonProbeT2Failed, "the remote tier did not give back what it was given; look into the tier's server and its clients' versions."
	}
}

// storedProbe is the published condition, nil when there is none that the gate could have
// published.
func storedProbe(stored *v1alpha1.CacheBackendStatus) *metav1.Condition {
	condition := find(stored, v1alpha1.ConditionFunctionalProbeOK)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return condition
	}
	switch condition.Reason {
	case v1alpha1.ReasonProbeIngestFailed, v1alpha1.ReasonProbeRoutingFailed, v1alpha1.ReasonProbeT2Failed:
		return condition
	default:
		return nil
	}
}
