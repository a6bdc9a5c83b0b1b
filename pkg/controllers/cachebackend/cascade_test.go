// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// servers reads "A:0,B:1" as the pods that serve; those in others exist besides.
func servers(ready string, converged bool, others ...types.UID) Servers {
	servers := Servers{Present: sets.New(others...), Converged: converged}
	for segment := range strings.SplitSeq(ready, ",") {
		var restarts int64
		if uid, count, found := strings.Cut(segment, ":"); found {
			if _, err := fmt.Sscan(count, &restarts); err != nil {
				panic(err)
			}
			servers.Ready = append(servers.Ready, Server{Name: "cache-" + uid, UID: types.UID(uid), Restarts: restarts})
			servers.Present.Insert(types.UID(uid))
		}
	}
	return servers
}

func TestJudgeServers(t *testing.T) {
	t.Parallel()
	const converged, rolling = true, false
	for _, tt := range []struct {
		name     string
		baseline string
		servers  Servers
		want     step
	}{
		{"nothing yet", "", servers("", rolling), keep},
		{"first sight", "", servers("A:0", rolling), rebase},
		{"first sight of one that has crashed before", "", servers("A:3", converged), rebase},
		{"no change", "A:0,B:0", servers("A:0,B:0", rolling), keep},
		{"none is up", "A:0", servers("", rolling), keep},
		{"none is up and none is left", "A:0", servers("", converged), keep},

		{"replaced", "A:0", servers("B:0", converged), cascade},
		{"replaced while the rollout goes on", "A:0", servers("B:0", rolling), cascade},
		{"one of two replaced", "A:0,B:0", servers("A:0,C:0", converged), cascade},
		{"scaled down", "A:0,B:0", servers("A:0", converged), cascade},
		{"restarted in place", "A:0", servers("A:1", converged), cascade},
		{"one of two restarted in place", "A:0,B:0", servers("A:0,B:1", rolling), cascade},
		{"one restarted in place, another not Ready", "A:0,B:0", servers("A:1", rolling, "B"), cascade},
		{"one gone, another not Ready", "A:0,B:0", servers("C:0", rolling, "B"), cascade},

		{"one of two not Ready", "A:0,B:0", servers("A:0", rolling, "B"), keep},
		{"one of two not Ready though the workload counts no more", "A:0,B:0", servers("A:0", converged, "B"), keep},
		{"a new one while the old one is not Ready", "A:0", servers("B:0", rolling, "A"), keep},

		{"surge", "A:0", servers("A:0,B:0", rolling), keep},
		{"scaled up", "A:0", servers("A:0,B:0", converged), rebase},
		{"fewer restarts than before", "A:2", servers("A:1", converged), rebase},
		{"fewer restarts than before while the rollout goes on", "A:2", servers("A:1", rolling), keep},

		{"unreadable baseline", "what is this", servers("A:0", converged), cascade},
		{"unreadable counts", "A:x,B:-1,:3", servers("A:0", converged), cascade},
		{"partly readable baseline", "what,A:0", servers("A:0", converged), rebase},
		{"partly readable baseline of one that is gone", "what,A:0", servers("B:0", converged), cascade},
		{"other order", "B:0,A:0", servers("A:0,B:0", converged), rebase},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := judgeServers(tt.baseline, tt.servers); got != tt.want {
				t.Errorf("step %d, want %d", got, tt.want)
			}
		})
	}
}

func TestCascadeWindow(t *testing.T) {
	t.Parallel()
	var memory restartMemory
	for _, tt := range []struct {
		at   time.Duration
		step step
		wait time.Duration
	}{
		{0, cascade, 0},
		{5 * time.Second, keep, 25 * time.Second}, // Also after an attempt that has failed.
		{cascadeWindow, cascade, 0},
		{cascadeWindow + time.Second, keep, cascadeWindow - time.Second},
	} {
		got := memory.decide("A:0", servers("B:0", true), start.Add(tt.at))
		if got.step != tt.step || got.wait != tt.wait {
			t.Errorf("after %s: %+v, want %+v", tt.at, got, tt)
		}
	}
	if got := memory.decide("A:0", servers("A:0,B:0", true), start.Add(cascadeWindow+2*time.Second)); got.step != rebase {
		t.Errorf("what is no cascade waits for the window: %+v", got)
	}
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	const stamp = "@2026-03-01T12:00:00Z"
	for _, tt := range []struct {
		name              string
		baseline, current string
		present, want     string
	}{
		{name: "first", baseline: "A:0", current: "B:0", want: "B:0"},
		{name: "next", baseline: "B:0", current: "C:0", present: "B:0", want: "C:0"},
		{name: "after one with a time", baseline: "B:0", current: "C:0", present: "B:0" + stamp, want: "C:0"},
		{name: "done before a write that was lost", baseline: "A:0", current: "B:0", present: "B:0"},
		{name: "scaled down", baseline: "A:0,B:0", current: "A:0", present: "C:0", want: "A:0"},
		{name: "scaled down again", baseline: "A:0,B:0", current: "A:0", present: "A:0", want: "A:0" + stamp},
		{name: "and again", baseline: "A:0,B:0", current: "A:0", present: "A:0@2026-02-28T12:00:00Z", want: "A:0" + stamp},
		{name: "done in an attempt that failed", baseline: "A:0,B:0", current: "A:0", present: "A:0" + stamp},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, due := trigger{replacement{tt.baseline, tt.current}, start}.value(tt.present)
			if due != (tt.want != "") || due && got != tt.want {
				t.Errorf("%q, due: %t; want %q", got, due, tt.want)
			}
		})
	}
}

// TestTriggerOfARetry: a cascade that is tried again is the same one, and sets the same value.
func TestTriggerOfARetry(t *testing.T) {
	t.Parallel()
	var memory restartMemory
	first := memory.decide("A:0,B:0", servers("A:0", true), start).trigger
	again := memory.decide("A:0,B:0", servers("A:0", true), start.Add(time.Hour)).trigger
	if first != again {
		t.Errorf("%+v, and then %+v", first, again)
	}
	if other := memory.decide("A:0,C:0", servers("A:0", true), start.Add(2*time.Hour)).trigger; other.since == first.since {
		t.Errorf("another cascade counts as a retry: %+v", other)
	}
}

func FuzzParseInstance(f *testing.F) {
	for _, text := range []string{"", "A:0", "A:0,B:12", "a,b", ":1", "A:", "A:-1", "A:1:2", ",,,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed := parseInstance(text)
		var list []Server
		for uid, restarts := range parsed {
			if uid == "" || restarts < 0 {
				t.Fatalf("%q has the server %q with %d restarts", text, uid, restarts)
			}
			list = append(list, Server{UID: uid, Restarts: restarts})
		}
		if again := parseInstance(instance(list)); len(again) != len(parsed) {
			t.Fatalf("%q names %v, which names %v", text, parsed, again)
		}
	})
}

// tierModel is a tier with its controller and the engines that are connected to it.
type tierModel struct {
	*testing.T
	random *rand.Rand
	now    time.Time

	pods    []*modelPod
	made    int
	desired int

	published string
	memory    restartMemory
	// connected are the servers that engines rely on, as they were when they connected.
	connected map[types.UID]int64
	// annotation is what triggers the engines' restart, for as long as it changes.
	annotation string
	// lastCascade is when this process last began one.
	lastCascade time.Time
	// amnesia says that a cascade was done in part, or that the process has forgotten one.
	amnesia bool
}

type modelPod struct {
	uid      types.UID
	restarts int64
	ready    bool
	newer    bool
}

func (m *tierModel) add(newer bool) {
	m.made++
	m.pods = append(m.pods, &modelPod{uid: types.UID(fmt.Sprint("p", m.made)), newer: newer})
}

func (m *tierModel) kill(i int) { m.pods = slices.Delete(m.pods, i, i+1) }

// scale keeps the pods that have been there for longest.
func (m *tierModel) scale(desired int) {
	m.desired = desired
	for len(m.pods) < desired {
		m.add(false)
	}
	for len(m.pods) > desired {
		m.kill(len(m.pods) - 1)
	}
}

// observe lists the pods that serve in the order in which they were made.
func (m *tierModel) observe(converged bool) Servers {
	servers := Servers{Present: sets.New[types.UID]()}
	for _, pod := range m.pods {
		servers.Present.Insert(pod.uid)
		if pod.ready {
			servers.Ready = append(servers.Ready, Server{Name: string(pod.uid), UID: pod.uid, Restarts: pod.restarts})
		}
	}
	servers.Converged = converged && len(servers.Ready) == m.desired
	return servers
}

// broken says whether engines rely on a server that was replaced.
func (m *tierModel) broken(reliedOn map[types.UID]int64) bool {
	for uid, restarts := range reliedOn {
		i := slices.IndexFunc(m.pods, func(pod *modelPod) bool { return pod.uid == uid })
		if i < 0 || m.pods[i].restarts > restarts {
			return true
		}
	}
	return false
}

// happen lets something happen to the tier.
func (m *tierModel) happen() {
	if len(m.pods) == 0 {
		m.add(false)
		return
	}
	i := m.random.IntN(len(m.pods))
	switch pod := m.pods[i]; m.random.IntN(9) {
	case 0:
		pod.ready = true
	case 1: // An outage.
		pod.ready = false
	case 2: // A crash in place.
		pod.ready = false
		pod.restarts++
	case 3: // A rollout begins.
		m.add(true)
	case 4: // A rollout is taken back.
		if pod.newer && len(m.pods) > m.desired {
			m.kill(i)
		}
	case 5: // A rollout goes on.
		if len(m.pods) > m.desired {
			m.kill(0)
		}
	case 6:
		m.kill(i)
	case 7:
		m.scale(1 + m.random.IntN(3))
	case 8:
		m.amnesia = m.amnesia || m.memory.baseline != nil && m.published != *m.memory.baseline
		m.memory, m.lastCascade = restartMemory{}, time.Time{} // The window is the process's.
	}
}

// pass is a pass of the controller, whose writes may fail.
func (m *tierModel) pass(servers Servers) {
	if m.memory.baseline == nil {
		m.memory.baseline = new(m.published)
	}
	baseline, current := *m.memory.baseline, instance(servers.Ready)
	decision := m.memory.decide(baseline, servers, m.now)
	switch decision.step {
	case cascade:
		m.checkCascade(parseInstance(baseline))
		if m.random.IntN(4) == 0 {
			return // The engines could not be read.
		}
		if value, due := decision.trigger.value(m.annotation); due {
			m.annotation, m.connected = value, parseInstance(current)
		}
		if m.random.IntN(4) == 0 {
			m.amnesia = true // One of them could not be restarted.
			return
		}
		m.memory.baseline, baseline, m.amnesia = &current, current, false
	case rebase:
		m.memory.baseline, baseline, m.amnesia = &current, current, false
		for uid, restarts := range parseInstance(current) {
			if _, known := m.connected[uid]; !known {
				m.connected[uid] = restarts
			}
		}
	}
	if m.random.IntN(4) > 0 {
		m.published = baseline
	}
}

func (m *tierModel) checkCascade(baseline map[types.UID]int64) {
	if !m.broken(baseline) {
		m.Errorf("engines are restarted though every server of %v is as it was", baseline)
	}
	if !m.broken(m.connected) && !m.amnesia {
		m.Errorf("engines are restarted again, though they rely on %v", m.connected)
	}
	if !m.lastCascade.IsZero() && m.now.Sub(m.lastCascade) < cascadeWindow {
		m.Errorf("engines are restarted again after %s", m.now.Sub(m.lastCascade))
	}
	m.lastCascade = m.now
}

// settle lets the tier and the controller come to rest.
func (m *tierModel) settle() {
	newest := m.random.IntN(2) == 0
	for len(m.pods) > m.desired {
		m.kill(map[bool]int{true: len(m.pods) - 1}[newest])
	}
	for len(m.pods) < m.desired {
		m.add(false)
	}
	for _, pod := range m.pods {
		pod.ready = true
	}
	for range 50 {
		m.now = m.now.Add(cascadeWindow)
		m.pass(m.observe(true))
	}
	if m.broken(m.connected) {
		m.Errorf("engines rely on %v, though the servers are %v", m.connected, m.published)
	}
	if want := instance(m.observe(true).Ready); m.published != want {
		m.Errorf("%q is published at rest, want %q", m.published, want)
	}
}

// TestRandomTiers takes tiers and their controller through whatever may happen to them.
func TestRandomTiers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		m := &tierModel{T: t, random: rand.New(rand.NewPCG(seed, 2)), now: start, desired: 1, connected: map[types.UID]int64{}}
		for range 60 {
			behind := m.observe(m.random.IntN(2) == 0)
			m.happen()
			m.now = m.now.Add(time.Duration(m.random.Int64N(int64(40 * time.Second))))
			seen := m.observe(true)
			// The workload's count may be from before, the list of pods is not.
			seen.Converged = seen.Converged && behind.Converged
			m.pass(seen)
			if m.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		m.settle()
		if m.Failed() {
			t.Fatalf("seed %d, at rest", seed)
		}
	}
}
