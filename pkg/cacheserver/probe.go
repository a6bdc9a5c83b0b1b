// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"fmt"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
)

// ProbeRequest asks the cache server to try itself for a backend.
type ProbeRequest struct {
	// Backend is the backend's namespace and name, with a slash between them.
	Backend string `json:"backend"`
	Model   string `json:"model"`
	// HashScheme is the runtime of the backend's engines in lower case.
	HashScheme  string `json:"hashScheme"`
	BackendType string `json:"backendType,omitempty"`
}

// ProbeResult says how each stage went. A stage that failed is no error of the call. Beside
// one, others may have a value that is not known here; without one, none has.
type ProbeResult struct {
	Backend string       `json:"backend"`
	Ingest  StageResult  `json:"ingest"`
	Routing StageResult  `json:"routing"`
	T2      StageResult  `json:"t2"`
	Errors  []StageError `json:"errors"`
}

// StageResult is how a stage of a probe went. The server may say what is not known here.
type StageResult string

// The known results.
const (
	StageOK      StageResult = "ok"
	StageFailed  StageResult = "failed"
	StageSkipped StageResult = "skipped"
)

// The stages, in their order.
const (
	StageIngest  = "ingest"
	StageRouting = "routing"
	StageT2      = "t2"
)

// StageError says why a stage failed.
type StageError struct {
	// Stage is ingest, routing or t2.
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// Passed says whether each stage went well or was left out.
func (r *ProbeResult) Passed() bool {
	return !slices.ContainsFunc(r.stages(), func(stage stageOutcome) bool {
		return stage.result != StageOK && stage.result != StageSkipped
	})
}

// FailedStage returns the first stage that failed and what the server says of it, which may
// be nothing.
func (r *ProbeResult) FailedStage() (stage, message string, failed bool) {
	stages := r.stages()
	i := slices.IndexFunc(stages, func(stage stageOutcome) bool { return stage.result == StageFailed })
	if i < 0 {
		return "", "", false
	}
	stage = stages[i].name
	for _, e := range r.Errors {
		if e.Stage == stage && strings.TrimSpace(e.Message) != "" {
			return stage, e.Message, true
		}
	}
	return stage, "", true
}

type stageOutcome struct {
	name   string
	result StageResult
}

func (r *ProbeResult) stages() []stageOutcome {
	return []stageOutcome{{StageIngest, r.Ingest}, {StageRouting, r.Routing}, {StageT2, r.T2}}
}

// decodeProbe reads the answer to a probe of a backend.
func decodeProbe(body []byte, backend string) (*ProbeResult, error) {
	result := &ProbeResult{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, result); err != nil {
		return nil, fmt.Errorf("decoding the answer to the probe: %w", short(err))
	}
	// A URL that leads elsewhere, say to something that answers with any JSON, must not pass.
	if result.Backend != backend {
		return nil, fmt.Errorf("the answer is for the backend %.64q, the probe was for %q", result.Backend, backend)
	}
	if _, _, failed := result.FailedStage(); !failed && !result.Passed() {
		return nil, fmt.Errorf("the answer has a stage that neither passed nor failed: ingest %.64q, routing %.64q, t2 %.64q",
			result.Ingest, result.Routing, result.T2)
	}
	return result, nil
}
