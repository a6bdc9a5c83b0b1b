// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	// steadyRequeue is how often a backend is looked at without a reason. Engine pods are
	// not watched, since a cluster has too many.
	steadyRequeue = 30 * time.Second
	// churnRequeue replaces it while engine pods come and go.
	churnRequeue = 5 * time.Second
)

// matchEngines publishes how many pods the selector finds, and what is wrong when it finds
// none though engines are expected. What could not be listed leaves standing what was known.
func (p *pass) matchEngines() {
	labels := selectorLabels(p.backend)
	engines := p.observation.Engines
	switch {
	case len(labels) == 0:
		p.next.MatchedEnginePods, p.next.EngineSelectorMessage = nil, ""
		return
	case !engines.PodsListed:
		return
	}
	p.next.MatchedEnginePods = new(engines.Pods)
	switch {
	case engines.Pods > 0:
		p.next.EngineSelectorMessage = ""
	case !engines.DeploymentsListed:
	case engines.Deployments > 0 && engines.DesiredReplicas == 0:
		// The engines are scaled to zero on purpose.
		p.next.EngineSelectorMessage = ""
	default:
		p.next.EngineSelectorMessage = unmatchedMessage(labels)
	}
}

// requeueForEngines bounds the time to the next pass, since nothing else tells about pods.
func (p *pass) requeueForEngines() {
	switch {
	case len(selectorLabels(p.backend)) == 0:
	case p.observation.Engines.churn():
		p.requeueWithin(churnRequeue)
	default:
		p.requeueWithin(steadyRequeue)
	}
}

// churn says whether the engines' Deployments are at work: their pods are not as many as
// they ask for. Pods that have ended are nobody's replicas any more.
func (e Engines) churn() bool {
	return e.PodsListed && e.DeploymentsListed && e.Deployments > 0 && e.DesiredReplicas != e.LivePods
}

func selectorLabels(backend *v1alpha1.CacheBackend) map[string]string {
	if backend.Spec.EngineSelector == nil {
		return nil
	}
	return backend.Spec.EngineSelector.MatchLabels
}

func unmatchedMessage(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+":"+labels[key])
	}
	return fmt.Sprintf("spec.engineSelector.matchLabels={%s}: no Pods in namespace match; "+
		"compare it with the labels of the engines' pod template.", strings.Join(pairs, ","))
}
