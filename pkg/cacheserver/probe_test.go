// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fixture "inferencecache.io/inferencecache/test/cacheserver"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	client := newClient(t, Target{URL: server.URL(fixture.ProbePath)})
	server.SetProber(fixture.Failing("routing", "lookup found nothing"))
	got, err := client.Probe(t.Context(), probe)
	if err != nil {
		t.Fatal(err)
	}
	want := &ProbeResult{
		Backend: "orchid/llama-cache", Ingest: StageOK, Routing: StageFailed, T2: StageSkipped,
		Errors: []StageError{{Stage: "routing", Message: "lookup found nothing"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	sent := []fixture.ProbeRequest{{
		Backend: "orchid/llama-cache", Model: "functional-self-test", HashScheme: "vllm", BackendType: "LMCache",
	}}
	if diff := cmp.Diff(sent, server.Probes()); diff != "" {
		t.Error(diff)
	}
	if got := server.LastHeader(fixture.ProbePath).Get("Content-Type"); got != "application/json" {
		t.Errorf("got content type %q", got)
	}
	server.SetBehavior(fixture.ProbePath, fixture.Answer(http.StatusAccepted, `{"backend":"orchid/llama-cache","ingest":"ok","routing":"ok","t2":"ok"}`))
	if got, err := client.Probe(t.Context(), probe); err != nil || !got.Passed() {
		t.Errorf("got %v and error %v for status 202", got, err)
	}
}

func TestProbeOutcome(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Passed         bool
		Stage, Message string
		Failed         bool
	}
	tests := map[string]struct {
		stages string
		want   outcome
	}{
		"all ok":         {`"ingest":"ok","routing":"ok","t2":"ok"`, outcome{Passed: true}},
		"all skipped":    {`"ingest":"skipped","routing":"skipped","t2":"skipped"`, outcome{Passed: true}},
		"errors, passed": {`"ingest":"ok","routing":"ok","t2":"ok","errors":[{"stage":"t2","message":"x"}]`, outcome{Passed: true}},
		"ingest failed": {
			`"ingest":"failed","routing":"skipped","t2":"skipped","errors":[{"stage":"ingest","message":"no publisher"}]`,
			outcome{Stage: StageIngest, Message: "no publisher", Failed: true},
		},
		"the first of two": {
			`"ingest":"ok","routing":"failed","t2":"failed","errors":[{"stage":"t2","message":"x"},{"stage":"routing","message":"y"}]`,
			outcome{Stage: StageRouting, Message: "y", Failed: true},
		},
		"blank messages": {
			`"ingest":"ok","routing":"ok","t2":"failed","errors":[null,{"stage":"t2"},{"stage":"t2","message":" \n"},{"stage":"t2","message":"z"}]`,
			outcome{Stage: StageT2, Message: "z", Failed: true},
		},
		"no message":         {`"ingest":"failed","routing":"ok","t2":"ok"`, outcome{Stage: StageIngest, Failed: true}},
		"unknown beside one": {`"ingest":"maybe","routing":"failed"`, outcome{Stage: StageRouting, Failed: true}},
		"unknown keys":       {`"ingest":"ok","routing":"ok","t2":"ok","t3":"failed","Ingest":"failed"`, outcome{Passed: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := decodeProbe([]byte(`{"backend":"a/b",`+test.stages+"}\n"), "a/b")
			if err != nil {
				t.Fatal(err)
			}
			got := outcome{Passed: result.Passed()}
			got.Stage, got.Message, got.Failed = result.FailedStage()
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 1<<15)
	tests := map[string]struct{ body, want string }{
		"another backend":  {`{"backend":"a/c","ingest":"ok","routing":"ok","t2":"ok"}`, `for the backend "a/c", the probe was for "a/b"`},
		"no backend":       {`{"ingest":"ok","routing":"ok","t2":"ok"}`, `for the backend ""`},
		"long backend":     {`{"backend":"` + long + `"}`, "99999"},
		"keys in capitals": {`{"Backend":"a/b","Ingest":"ok","Routing":"ok","T2":"ok"}`, `for the backend ""`},
		"empty object":     {`{}`, `for the backend ""`},
		"null":             {`null`, `for the backend ""`},
		"unknown stage":    {`{"backend":"a/b","ingest":"OK","routing":"ok ","t2":"skipped"}`, `ingest "OK", routing "ok ", t2 "skipped"`},
		"long stage":       {`{"backend":"a/b","ingest":"` + long + `"}`, "neither passed nor failed"},
		"missing stage":    {`{"backend":"a/b","ingest":"ok","routing":"ok"}`, `ingest "ok", routing "ok", t2 ""`},
		"wrong type":       {`{"backend":"a/b","ingest":true}`, "ingest: a JSON bool does not fit"},
		"number":           {`{"backend":` + long + `}`, "backend: a JSON number does not fit"},
		"array":            {`[]`, "a JSON array does not fit"},
		"two answers":      {`{"backend":"a/b","ingest":"ok","routing":"ok","t2":"ok"}{}`, "invalid character '{'"},
		"truncated":        {`{"backend":"a/b","ingest":"ok","routing":"ok","t2":"ok"`, "unexpected end"},
		"HTML":             {`<html>`, "invalid character '<'"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := decodeProbe([]byte(test.body), "a/b")
			if result != nil || err == nil {
				t.Fatalf("got %v and error %v", result, err)
			}
			if !strings.Contains(err.Error(), test.want) || len(err.Error()) > 300 {
				t.Errorf("got error %.500q, want a short one with %q", err, test.want)
			}
		})
	}
}
