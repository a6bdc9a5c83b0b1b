// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"cmp"
	"context"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// probeModel is the model that the cache server tries itself with.
const probeModel = "functional-self-test"

// Prober asks the cache server to try itself for a backend.
type Prober interface {
	Probe(ctx context.Context, request cacheserver.ProbeRequest) (*cacheserver.ProbeResult, error)
}

// probeMemory is the latest answer about a backend, for as long as it is managed.
type probeMemory struct {
	answer *ProbeAnswer
	// publishedOn is the version of the backend that the answer was published on, empty
	// before that. The cache may still show this version afterwards.
	publishedOn string
}

// latest is what was last answered about a backend, nil for nothing.
func (m *probeMemory) latest(backend *v1alpha1.CacheBackend) *ProbeAnswer {
	if m.answer == nil {
		return nil
	}
	answer := *m.answer
	answer.Published = m.publishedOn != "" && m.publishedOn != backend.ResourceVersion
	return &answer
}

// published is told about a status that is stored, decided on this version of the backend.
func (m *probeMemory) published(backend *v1alpha1.CacheBackend) {
	if m.answer != nil && m.publishedOn == "" {
		m.publishedOn = backend.ResourceVersion
	}
}

// probe asks the cache server about a backend and counts what it says. Each call takes the
// backend's window, answered or not.
func (r *Reconciler) probe(ctx context.Context, backend *v1alpha1.CacheBackend) *ProbeAnswer {
	answer := &ProbeAnswer{At: r.clock.Now()}
	result, err := r.prober.Probe(ctx, probeRequest(backend))
	if err != nil {
		log.FromContext(ctx).V(2).Info("The functional probe got no usable answer", "err", err)
		answer.Err = err
	} else {
		answer.Result = *result
		countProbe(result)
	}
	r.memories.of(backend).probe = probeMemory{answer: answer}
	return answer
}

func probeRequest(backend *v1alpha1.CacheBackend) cacheserver.ProbeRequest {
	return cacheserver.ProbeRequest{
		Backend:     client.ObjectKeyFromObject(backend).String(),
		Model:       probeModel,
		HashScheme:  strings.ToLower(string(cmp.Or(backend.Spec.Runtime, v1alpha1.RuntimeVLLM))),
		BackendType: string(backend.Spec.Type),
	}
}

// countProbe counts a result that is neither a pass nor left out as failed: such a value
// is answered only beside a stage that failed.
func countProbe(result *cacheserver.ProbeResult) {
	for stage, outcome := range map[string]cacheserver.StageResult{
		cacheserver.StageIngest: result.Ingest, cacheserver.StageRouting: result.Routing, cacheserver.StageT2: result.T2,
	} {
		if outcome != cacheserver.StageOK && outcome != cacheserver.StageSkipped {
			outcome = cacheserver.StageFailed
		}
		probeResults.WithLabelValues(result.Backend, stage, string(outcome)).Inc()
	}
}
