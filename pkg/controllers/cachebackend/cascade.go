// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// cascadeWindow is how much time lies between two restarts of a backend's engines.
const cascadeWindow = 30 * time.Second

// Servers is what runs of a managed tier.
type Servers struct {
	// Ready are the pods that serve, sorted by name.
	Ready []Server
	// Present are the pods of the tier that are neither being deleted nor ended, Ready or
	// not.
	Present sets.Set[types.UID]
	// Converged says that the workload has nothing left to do, and that Ready is all that
	// it counts.
	Converged bool
}

// Server is a pod that serves.
type Server struct {
	Name string
	UID  types.UID
	// Restarts is how often the server's own containers were started again, together.
	Restarts int64
}

// instance names a set of servers, for comparison with another one and for people:
// uid:restarts for each, in the order of the pods' names.
func instance(servers []Server) string {
	texts := make([]string, 0, len(servers))
	for _, server := range servers {
		texts = append(texts, string(server.UID)+":"+strconv.FormatInt(server.Restarts, 10))
	}
	return strings.Join(texts, ",")
}

// parseInstance returns the restarts of each pod that an instance names. What cannot be
// read is left out.
func parseInstance(text string) map[types.UID]int64 {
	servers := map[types.UID]int64{}
	for segment := range strings.SplitSeq(text, ",") {
		uid, count, found := strings.Cut(segment, ":")
		restarts, err := strconv.ParseInt(count, 10, 64)
		if found && uid != "" && err == nil && restarts >= 0 {
			servers[types.UID(uid)] = restarts
		}
	}
	return servers
}

// step says what follows from a change of the servers.
type step int

const (
	// keep leaves the baseline as it is.
	keep step = iota
	// rebase takes the present servers as the baseline.
	rebase
	// cascade restarts the engines, and then takes the present servers as the baseline.
	cascade
)

// judgeServers compares the servers with the baseline, the set that engines are known to
// have connections to. Engines hold on to a connection that is broken, so they must be
// restarted when one of those servers was replaced. The baseline must not take in the new
// pods of a rollout that may still be undone, nor lose pods to an outage: their return would
// look like a first sight, and be no reason to restart anybody.
func judgeServers(baseline string, servers Servers) step {
	current := instance(servers.Ready)
	switch {
	case current == "", current == baseline:
		return keep
	case baseline == "":
		// Whoever has connected before did so to the very servers that are seen now.
		return rebase
	}
	before := parseInstance(baseline)
	if len(before) == 0 {
		return cascade
	}
	outage := false
	for uid, restarts := range before {
		i := slices.IndexFunc(servers.Ready, func(server Server) bool { return server.UID == uid })
		switch {
		case i >= 0 && servers.Ready[i].Restarts > restarts:
			return cascade
		case i >= 0:
		case !servers.Present.Has(uid):
			return cascade
		default:
			outage = true
		}
	}
	if outage || !servers.Converged {
		return keep
	}
	return rebase
}

// restartMemory is what the process knows about restarts of a backend's engines.
type restartMemory struct {
	// baseline is what this process has decided to publish, or has found published; nil
	// before either. It counts more than the status, whose write may have failed and whose
	// copy in the cache may be old.
	baseline *string
	// lastCascade is when the latest cascade was tried.
	lastCascade time.Time
	// latest is that cascade, and since is when it was first tried.
	latest replacement
	since  time.Time
}

// replacement is a change of servers that engines restart for.
type replacement struct{ baseline, current string }

// restartDecision is what to do about the engines of a backend.
type restartDecision struct {
	step step
	// wait is how long a cascade has to wait that may not be yet; step is keep then.
	wait time.Duration
	// trigger is what to set on the engines of a cascade.
	trigger trigger
}

// decide compares the servers with the baseline. It lets no cascade begin within the window
// of the one before, whose attempt takes the window even if it fails.
func (m *restartMemory) decide(baseline string, servers Servers, now time.Time) restartDecision {
	step := judgeServers(baseline, servers)
	if step != cascade {
		return restartDecision{step: step}
	}
	if left := cascadeWindow - now.Sub(m.lastCascade); !m.lastCascade.IsZero() && left > 0 {
		return restartDecision{step: keep, wait: left}
	}
	replaced := replacement{baseline, instance(servers.Ready)}
	if replaced != m.latest {
		m.latest, m.since = replaced, now
	}
	m.lastCascade = now
	return restartDecision{step: cascade, trigger: trigger{replaced, m.since}}
}

// trigger makes the value that rolls engines. It names the servers that are there now.
type trigger struct {
	replacement
	// since is when the cascade was first tried.
	since time.Time
}

// triggerSeparator stands between the servers and a time.
const triggerSeparator = "@"

// value returns what to set on an engine in place of the present value, and false when it
// was restarted for these servers already. A tier that has shrunk may have come down to
// servers that engines were restarted for once before: that value is set already and would
// not restart them again, so it gets the time as well, the same one in every attempt.
func (t trigger) value(present string) (string, bool) {
	servers, _, _ := strings.Cut(present, triggerSeparator)
	switch {
	case servers != t.current:
		return t.current, true
	case !t.shrunk():
		return "", false
	default:
		value := t.current + triggerSeparator + t.since.UTC().Format(time.RFC3339)
		return value, value != present
	}
}

// shrunk says whether the present servers were all in the baseline as they are. Otherwise
// there were no such servers before, and what names them was set for them.
func (t trigger) shrunk() bool {
	before := parseInstance(t.baseline)
	for uid, restarts := range parseInstance(t.current) {
		if known, found := before[uid]; !found || known != restarts {
			return false
		}
	}
	return true
}
