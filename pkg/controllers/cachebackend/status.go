// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cachebackend is the controller of CacheBackends: it provisions managed tiers and
// reports on every backend.
package cachebackend

import (
	"strconv"
	"time"

	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Decision is what follows from an observation.
type Decision struct {
	// Status is the whole status as it is to be stored. The parts that are not the
	// controller's are as they were.
	Status v1alpha1.CacheBackendStatus
	// Events are to be told once Status is stored, in this order.
	Events []Event
	// RequeueAfter is when to look again although nothing tells to; zero is never.
	RequeueAfter time.Duration
	// Probe says that the decision needs an answer of the functional probe: call it and
	// decide again. Until then the decision keeps to the answer that is published.
	Probe bool
	// Answered says that Status has what follows from the latest answer of the probe.
	Answered bool
}

// pass is one decision in the making.
type pass struct {
	backend     *v1alpha1.CacheBackend
	stored      *v1alpha1.CacheBackendStatus
	observation Observation
	now         time.Time

	next    v1alpha1.CacheBackendStatus
	requeue time.Duration
	probe   bool
	// answered says that an answer of the probe has come in.
	answered bool
}

// Decide says what to publish about a backend. It is a function of its arguments: deciding
// again on its own result, at the same time, changes nothing and tells nothing.
func Decide(backend *v1alpha1.CacheBackend, observation Observation, now time.Time) Decision {
	p := &pass{backend: backend, stored: &backend.Status, observation: observation, now: now}
	p.next = *backend.Status.DeepCopy()
	p.next.FailOpen = new(failOpen(backend))
	p.next.ObservedGeneration = backend.Generation

	switch Classify(backend).Path {
	case adapters.Managed:
		p.managed()
	case adapters.HostOnly:
		p.hostOnly()
	case adapters.EventsOnly:
		p.eventsOnly()
	case adapters.External:
		p.external()
	default:
		p.unmanaged()
	}
	p.matchEngines()
	p.requeueForEngines()
	if len(p.next.Conditions) == 0 {
		p.next.Conditions = nil
	}
	return Decision{Status: p.next, Events: events(p.stored, &p.next, observation), RequeueAfter: p.requeue, Probe: p.probe, Answered: p.answered}
}

// managed is the path of a backend with a workload. A spec that could not be applied in
// full is not the one that the status is about.
func (p *pass) managed() {
	gotTier := gotTier(p.stored, p.observation.Endpoint)
	if gotTier {
		p.next.FirstAvailableAt = nil
	}
	p.next.Endpoint = p.observation.Endpoint
	rollout := p.rollout()
	if p.observation.Applied.Err != nil || rollout.refused() != nil {
		p.next.ObservedGeneration = p.stored.ObservedGeneration
	}
	base := rollout.judge()
	if base.ready {
		p.latchFirstAvailable()
	}
	complaint := ""
	if p.observation.Workload.Exists {
		complaint = rejection(p.observation.Applied.Err)
	}
	p.publish(p.passKernels(p.passProbe(p.passKV(base, gotTier))), complaint)
	p.reportT2()
	p.reportCompatibility()
	p.reportServers()
	p.requeueWithin(steadyRequeue)
}

func (p *pass) rollout() rollout {
	return rollout{
		kind:          workloadKind(p.backend),
		name:          p.backend.Name,
		applied:       p.observation.Applied,
		workload:      p.observation.Workload,
		want:          wantedReplicas(p.observation.Replicas, p.observation.Workload),
		everAvailable: p.next.FirstAvailableAt != nil,
		stuck:         stuck(p.stored),
		now:           p.now,
	}
}

// hostOnly is the path of a backend whose engines keep the cache to themselves.
func (p *pass) hostOnly() {
	p.remove(v1alpha1.ConditionFunctionalProbeOK, v1alpha1.ConditionT2Degraded)
	ready := p.withoutTier(verdict{ready: true, reason: v1alpha1.ReasonHostOnlyActive,
		message: "The cache lives in the engines' own memory; nothing is provisioned."})
	p.publish(p.passKernels(ready), "")
	p.reportCompatibility()
	if find(&p.next, v1alpha1.ConditionEngineCompatibility) != nil {
		// The pods that it is about need not match the selector.
		p.requeueWithin(steadyRequeue)
	}
}

// eventsOnly is the path of a backend that has nothing but its engines' events.
func (p *pass) eventsOnly() {
	p.remove(v1alpha1.ConditionFunctionalProbeOK, v1alpha1.ConditionEngineKernelsHealthy,
		v1alpha1.ConditionT2Degraded, v1alpha1.ConditionEngineCompatibility)
	p.publish(p.withoutTier(verdict{ready: true, reason: v1alpha1.ReasonEventsOnlyActive,
		message: "The engines' KV events are indexed; nothing is provisioned."}), "")
}

// withoutTier is about a backend that is up as soon as it exists. It returns what the KV
// gate leaves of that.
func (p *pass) withoutTier(base verdict) verdict {
	leftTier := servesTier(p.stored)
	if leftTier {
		p.next.FirstAvailableAt = nil
	}
	p.next.Endpoint, p.next.ObservedServerInstance = "", ""
	p.latchFirstAvailable()
	return p.passKV(base, leftTier)
}

// publish tells how a backend stands after all gates. Progressing follows from what they
// leave of Ready.
func (p *pass) publish(ready verdict, complaint string) {
	p.setReady(ready)
	p.setProgressing(ready, complaint)
}

// passKV applies the KV gate to a backend that is up or not, and returns what is left of
// Ready. freshWindow says that the time for the first KV event starts with this pass. This
// gate alone decides about Degraded; later ones only lower Ready.
func (p *pass) passKV(base verdict, freshWindow bool) verdict {
	p.latchFirstKVEvent()
	kv := p.kvGate(base, freshWindow).judge()
	p.requeueWithin(kv.deadline)
	p.setDegraded(kv)
	return kv.ready
}

func (p *pass) kvGate(base verdict, freshWindow bool) kvGate {
	gate := kvGate{
		base:     base,
		optedOut: p.backend.Annotations[v1alpha1.AnnotationRequireKVEvents] == "false",
		seen:     p.next.FirstKVEventObservedAt != nil,
		anchor:   p.now,
		timeout:  firstEventTimeout(p.backend),
		now:      p.now,
	}
	if p.next.FirstAvailableAt != nil {
		gate.anchor = p.next.FirstAvailableAt.Time
	}
	if !freshWindow {
		gate.breach = storedBreach(p.stored)
	}
	return gate
}

// passProbe applies the gate of the functional probe and returns what is left of Ready.
func (p *pass) passProbe(upstream verdict) verdict {
	verdict := probeGate{
		upstream: upstream,
		enabled:  p.observation.Probe.Enabled,
		bypassed: p.backend.Annotations[v1alpha1.AnnotationSkipFunctionalProbe] == "true",
		stored:   storedProbe(p.stored),
		answer:   p.observation.Probe.Answer,
		now:      p.now,
	}.judge()
	p.probe, p.answered = verdict.call, verdict.answered
	p.requeueWithin(verdict.recheck)
	switch condition := verdict.condition; {
	case condition.remove:
		p.remove(v1alpha1.ConditionFunctionalProbeOK)
	case condition.status != "":
		p.setStatus(v1alpha1.ConditionFunctionalProbeOK, condition.status, condition.reason, condition.message)
	}
	return verdict.ready
}

// reportServers publishes the servers that engines are known to be connected to.
func (p *pass) reportServers() {
	if restart := p.observation.Restart; restart.Known {
		p.next.ObservedServerInstance = restart.ServerInstance
		p.requeueWithin(restart.Wait)
	}
}

// reportT2 publishes whether the remote tier serves, once it was asked at all. That is
// advice, and lowers nothing.
func (p *pass) reportT2() {
	participation := p.stored.IndexParticipation
	if participation == nil || participation.T2HitRate == nil {
		p.remove(v1alpha1.ConditionT2Degraded)
		return
	}
	// The exact rate moves with every look at the index; what is said must not.
	if rate := twoDigits(*participation.T2HitRate); rate == "0" {
		p.set(v1alpha1.ConditionT2Degraded, true, v1alpha1.ReasonT2ZeroHitRate,
			"The remote tier is asked and has served nothing: its hit rate is 0. Engines and tier may not agree on "+
				"versions, hashing or serialization, or nothing was ever stored.")
	} else {
		p.set(v1alpha1.ConditionT2Degraded, false, v1alpha1.ReasonT2Serving, "The remote tier serves: its hit rate is "+rate+".")
	}
}

// twoDigits shortens a rate to two significant digits.
func twoDigits(rate string) string {
	value, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		return rate
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 2, 64), 64)
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// external is the path of a backend whose tier somebody else runs. The API server has
// published the same in the write of the spec; this repairs what was stored under earlier
// rules.
func (p *pass) external() {
	p.forgetTier()
	remote := p.backend.Spec.RemoteStorage
	external := binding.JudgeExternal(remote.Provider, remote.Endpoint)
	p.next.Endpoint = external.Endpoint
	p.remove(notReadiness...)
	p.remove(v1alpha1.ConditionDegraded)
	p.set(v1alpha1.ConditionReady, external.Ready, external.Reason, external.Message)
	p.set(v1alpha1.ConditionProgressing, false, external.Reason, external.Message)
}

// unmanaged is the path of a backend of which nothing can be said.
func (p *pass) unmanaged() {
	p.forgetTier()
	p.remove(notReadiness...)
	p.remove(v1alpha1.ConditionReady, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded)
}

// notReadiness are the conditions about what only a backend with engines of ours has.
var notReadiness = []string{
	v1alpha1.ConditionFunctionalProbeOK,
	v1alpha1.ConditionEngineKernelsHealthy,
	v1alpha1.ConditionT2Degraded,
	v1alpha1.ConditionEngineCompatibility,
}

// forgetTier drops what was observed of a tier of ours. That KV events were ever seen
// stays true.
func (p *pass) forgetTier() {
	p.next.Endpoint, p.next.ObservedServerInstance = "", ""
	p.next.FirstAvailableAt = nil
}

// requeueWithin makes the next pass come within a time; zero asks for nothing.
func (p *pass) requeueWithin(limit time.Duration) {
	if limit > 0 && (p.requeue == 0 || limit < p.requeue) {
		p.requeue = limit
	}
}
