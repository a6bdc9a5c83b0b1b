// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// What a backend with a probe publishes besides what it would publish without.
var (
	probed     = append([]string{"FunctionalProbeOK=True/ProbeOK"}, working...)
	unanswered = append([]string{"FunctionalProbeOK=Unknown/ProbeError"}, working...)
	bypassed   = append([]string{"FunctionalProbeOK=True/ProbeBypassed"}, working...)
	unrouted   = []string{"Ready=False/ProbeRoutingFailed", "Progressing=False/ProbeRoutingFailed", "Degraded=False/NotDegraded",
		"FunctionalProbeOK=False/ProbeRoutingFailed"}
)

var (
	passedProbe = cacheserver.ProbeResult{Ingest: "ok", Routing: "ok", T2: "skipped"}
	routeFailed = cacheserver.ProbeResult{Ingest: "ok", Routing: "failed", T2: "skipped",
		Errors: []cacheserver.StageError{{Stage: "ingest", Message: "no"}, {Stage: "routing", Message: "  "}, {Stage: "routing", Message: "lookup found nothing"}}}
	errNoAnswer = errors.New("503 Service Unavailable")
)

// probing is a story of a backend that has its first KV event, in a cluster with probes.
type probing struct {
	*story
	answer *ProbeAnswer
	// calls counts the calls that decisions have asked for.
	calls int
}

func newProbing(t *testing.T, changes ...change) *probing {
	return &probing{story: newStory(t, changes...).event()}
}

// pass makes the call that a decision asks for and stores what is decided after it.
func (p *probing) pass(result cacheserver.ProbeResult, err error) Decision {
	p.Helper()
	observation := available(1)
	observation.Probe = Probe{Enabled: true, Answer: p.answer}
	if decision := Decide(p.backend, p.completed(observation), p.now); decision.Probe {
		p.calls++
		p.answer = &ProbeAnswer{At: p.now, Result: result, Err: err}
		observation.Probe.Answer = p.answer
	}
	decision := p.story.pass(observation)
	if decision.Probe {
		p.Error("a decision on a fresh answer asks for another")
	}
	if p.answer != nil {
		p.answer = &ProbeAnswer{At: p.answer.At, Result: p.answer.Result, Err: p.answer.Err, Published: true}
	}
	return decision
}

func (p *probing) wantCalls(want int) {
	p.Helper()
	if p.calls != want {
		p.Errorf("%d calls, want %d", p.calls, want)
	}
}

func TestStoryProbePasses(t *testing.T) {
	t.Parallel()
	p := newProbing(t)
	decision := p.pass(passedProbe, nil)
	wantConditions(t, decision, probed...)
	wantEvents(t, decision, "Normal/KVEventsObserved")
	if decision.RequeueAfter != probeWindow {
		t.Errorf("requeue after %s", decision.RequeueAfter)
	}
	p.after(20 * time.Second)
	decision = p.pass(routeFailed, nil)
	wantConditions(t, decision, probed...)
	p.wantCalls(1)
	if decision.RequeueAfter != 10*time.Second {
		t.Errorf("requeue after %s", decision.RequeueAfter)
	}
	p.after(10 * time.Second)
	wantConditions(t, p.pass(routeFailed, nil), unrouted...)
	p.wantCalls(2)
}

func TestStoryProbeFails(t *testing.T) {
	t.Parallel()
	p := newProbing(t)
	decision := p.pass(routeFailed, nil)
	wantConditions(t, decision, unrouted...)
	wantEvents(t, decision, "Normal/KVEventsObserved")
	if got := messageOf(t, decision, "FunctionalProbeOK"); got != "lookup found nothing" {
		t.Errorf("FunctionalProbeOK says %q", got)
	}
	if got := messageOf(t, decision, "Ready"); !strings.HasSuffix(got, ": lookup found nothing") {
		t.Errorf("Ready says %q", got)
	}
	p.after(29500 * time.Millisecond)
	decision = p.pass(passedProbe, nil)
	wantConditions(t, decision, unrouted...)
	p.wantCalls(1)
	if decision.RequeueAfter != minProbeRequeue {
		t.Errorf("requeue after %s", decision.RequeueAfter)
	}
	for range 2 {
		// What a stage has said is not taken back by a server that cannot be asked.
		p.after(30 * time.Second)
		decision = p.pass(cacheserver.ProbeResult{}, errNoAnswer)
		wantConditions(t, decision, unrouted...)
		wantEvents(t, decision)
	}
	p.after(30 * time.Second)
	decision = p.pass(passedProbe, nil)
	wantConditions(t, decision, probed...)
	wantEvents(t, decision)
	p.wantCalls(4)
}

// TestStoryProbeSurvivesAFlap: a verdict that fails stands through a time in which the
// backend is down for another reason, and counts again after it.
func TestStoryProbeSurvivesAFlap(t *testing.T) {
	t.Parallel()
	p := newProbing(t)
	p.pass(routeFailed, nil)
	observation := broken()
	observation.Probe = Probe{Enabled: true, Answer: p.answer}
	wantConditions(t, p.story.pass(observation), append([]string{"FunctionalProbeOK=False/ProbeRoutingFailed"}, short...)...)
	p.after(10 * time.Second)
	decision := p.pass(passedProbe, nil)
	wantConditions(t, decision, unrouted...)
	wantEvents(t, decision)
	p.wantCalls(1)
}

func TestStoryProbeUnanswered(t *testing.T) {
	t.Parallel()
	p := newProbing(t)
	decision := p.pass(cacheserver.ProbeResult{}, errNoAnswer)
	wantConditions(t, decision, unanswered...)
	if got := messageOf(t, decision, "FunctionalProbeOK"); !strings.Contains(got, errNoAnswer.Error()) {
		t.Errorf("FunctionalProbeOK says %q", got)
	}
	p.after(29 * time.Second)
	wantConditions(t, p.pass(passedProbe, nil), unanswered...)
	p.wantCalls(1)
	p.after(time.Second)
	wantConditions(t, p.pass(passedProbe, nil), probed...)
	p.after(30 * time.Second)
	wantConditions(t, p.pass(cacheserver.ProbeResult{}, errNoAnswer), unanswered...)
	p.wantCalls(3)
}

func TestStoryProbeBypassed(t *testing.T) {
	t.Parallel()
	skip := func(value string) change {
		return func(backend *v1alpha1.CacheBackend) {
			backend.Annotations = map[string]string{v1alpha1.AnnotationSkipFunctionalProbe: value}
		}
	}
	p := newProbing(t, skip("true"))
	wantConditions(t, p.pass(routeFailed, nil), bypassed...)
	p.wantCalls(0)
	skip("True")(p.backend)
	wantConditions(t, p.pass(routeFailed, nil), unrouted...)
	skip("true")(p.backend)
	wantConditions(t, p.pass(routeFailed, nil), bypassed...)
	p.wantCalls(1)
}

// TestStoryProbeAgain: a backend that was on another path has lost its verdict, though no
// pass saw it there.
func TestStoryProbeAgain(t *testing.T) {
	t.Parallel()
	p := newProbing(t)
	p.pass(passedProbe, nil)
	p.backend.Status.Conditions = nil
	wantConditions(t, p.pass(routeFailed, nil), unrouted...)
	p.wantCalls(2)
}

func TestStoryProbeSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, observation := range map[string]Observation{"serving": available(1), "down": broken()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProbing(t)
			p.pass(routeFailed, nil)
			decision := p.story.pass(observation)
			if find(&decision.Status, v1alpha1.ConditionFunctionalProbeOK) != nil || decision.Probe {
				t.Errorf("%v, probe %t", published(&decision.Status), decision.Probe)
			}
		})
	}
}

// TestStoryProbeWaits: what is not ready is not probed.
func TestStoryProbeWaits(t *testing.T) {
	t.Parallel()
	p := newProbing(t).drained()
	wantConditions(t, p.pass(routeFailed, nil), awaiting...)
	p.wantCalls(0)
	for _, tierless := range []change{hostOnly, eventsOnly, hiCache, external("LMCacheServer", "h:1")} {
		s := newStory(t, tierless).event()
		if Decide(s.backend, Observation{Probe: Probe{Enabled: true}}, s.now).Probe {
			t.Errorf("a backend on the path %s is probed", Classify(s.backend).Path)
		}
	}
}

func (p *probing) drained() *probing {
	p.drain()
	return p
}

func TestProbeReasons(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 400)
	for name, tt := range map[string]struct {
		result cacheserver.ProbeResult
		reason string
		// says is a part of the message.
		says string
	}{
		"ingest": {cacheserver.ProbeResult{Ingest: "failed", Routing: "skipped", T2: "skipped"}, v1alpha1.ReasonProbeIngestFailed, "did not reach the index"},
		"the first one counts": {cacheserver.ProbeResult{Ingest: "ok", Routing: "failed", T2: "failed",
			Errors: []cacheserver.StageError{{Stage: "t2", Message: "no"}}}, v1alpha1.ReasonProbeRoutingFailed, "did not find"},
		"t2": {cacheserver.ProbeResult{Ingest: "ok", Routing: "ok", T2: "failed",
			Errors: []cacheserver.StageError{{Stage: "t2", Message: long}}}, v1alpha1.ReasonProbeT2Failed, "ü..."},
		"beside what is not known": {cacheserver.ProbeResult{Ingest: "", Routing: "maybe", T2: "failed"}, v1alpha1.ReasonProbeT2Failed, "did not give back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision := newProbing(t).pass(tt.result, nil)
			condition := find(&decision.Status, v1alpha1.ConditionFunctionalProbeOK)
			if !is(condition, metav1.ConditionFalse, tt.reason) || !strings.Contains(condition.Message, tt.says) || len(condition.Message) > 512 {
				t.Errorf("%+v", condition)
			}
			if !is(find(&decision.Status, v1alpha1.ConditionReady), metav1.ConditionFalse, tt.reason) {
				t.Errorf("%v", published(&decision.Status))
			}
		})
	}
}

// TestForeignProbeVerdict: a stored failure that the gate cannot have published counts as
// none, and does not outlive a server that cannot be asked.
func TestForeignProbeVerdict(t *testing.T) {
	t.Parallel()
	p := newProbing(t)
	p.backend.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionFunctionalProbeOK, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProbeError, Message: "m",
	}}
	wantConditions(t, p.pass(cacheserver.ProbeResult{}, errNoAnswer), unanswered...)
}

func TestT2Degraded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate *string
		want string
		says string
	}{
		{nil, "", ""},
		{new("0"), "True/T2ZeroHitRate", "hit rate is 0"},
		{new("0.15"), "False/T2Serving", "0.15"},
	} {
		for name, observation := range map[string]Observation{"serving": available(1), "down": broken()} {
			s := newStory(t).event()
			s.backend.Status.IndexParticipation.T2HitRate = tt.rate
			decision := s.pass(observation)
			condition := find(&decision.Status, v1alpha1.ConditionT2Degraded)
			got := ""
			if condition != nil {
				got = string(condition.Status) + "/" + condition.Reason
				if !strings.Contains(condition.Message, tt.says) {
					t.Errorf("T2Degraded says %q", condition.Message)
				}
			}
			if got != tt.want {
				t.Errorf("%s with %v: %q, want %q", name, tt.rate, got, tt.want)
			}
			if ready := find(&decision.Status, v1alpha1.ConditionReady); (ready.Status == metav1.ConditionTrue) != (name == "serving") {
				t.Errorf("%s: %v", name, published(&decision.Status))
			}
		}
	}
	s := newStory(t).event()
	s.backend.Status.IndexParticipation.T2HitRate = new("0")
	s.pass(available(1))
	s.backend.Status.IndexParticipation.T2HitRate = nil
	if decision := s.pass(available(1)); find(&decision.Status, v1alpha1.ConditionT2Degraded) != nil {
		t.Errorf("%v", published(&decision.Status))
	}
}
