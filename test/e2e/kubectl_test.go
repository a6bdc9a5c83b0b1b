// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cluster"
)

// kubectl runs kubectl with a manifest as its standard input, and fails the test when that fails.
func kubectl(t *testing.T, manifest string, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := env.cluster.KubectlInput(t.Context(), strings.NewReader(manifest), args...)
	if err != nil {
		t.Fatal(err)
	}
	return stdout, stderr
}

// kubectlFails runs kubectl, which must end with the given exit code, and returns all that it prints.
func kubectlFails(t *testing.T, code int, manifest string, args ...string) string {
	t.Helper()
	stdout, stderr, err := env.cluster.KubectlInput(t.Context(), strings.NewReader(manifest), args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Fatalf("kubectl %v: got %v, want exit code %d\n%s", args, err, code, stdout)
	}
	return stdout + stderr
}

// parseTable reads what `kubectl get` prints. Cells are found by the position of their header, since they may be blank.
func parseTable(t *testing.T, output string) (headers []string, rows []map[string]string) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	headers = strings.Fields(lines[0])
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, header := range headers {
			start, end := strings.Index(lines[0], header), len(line)
			if i+1 < len(headers) {
				end = min(end, strings.Index(lines[0], headers[i+1]))
			}
			if start < end {
				row[header] = strings.TrimSpace(line[start:end])
			}
		}
		rows = append(rows, row)
	}
	return headers, rows
}

// TestKubectlSamples is what the documentation tells a user to do first, up to removing it all again.
func TestKubectlSamples(t *testing.T) {
	t.Parallel()
	samples := filepath.Join(cluster.Root(), "artifacts", "samples")
	stdout, stderr := kubectl(t, "", "apply", "-f", samples)
	if stderr != "" {
		t.Errorf("apply warns: %s", stderr)
	}
	objects := strings.Count(stdout, " created\n")
	if objects < 10 || objects != strings.Count(stdout, "\n") {
		t.Errorf("apply: got %s", stdout)
	}
	stdout, stderr = kubectl(t, "", "apply", "-f", samples)
	if stderr != "" || strings.Count(stdout, " unchanged\n") != objects {
		t.Errorf("second apply: got %s%s", stdout, stderr)
	}
	category, _ := kubectl(t, "", "get", "inferencecache", "-n", "inference-cache-samples", "-o", "name")
	for line := range strings.Lines(stdout) {
		name, _, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(name, "namespace/") && !strings.Contains(category, name+"\n") {
			t.Errorf("%s is missing in the category: %s", name, category)
		}
	}
	if stdout, _ = kubectl(t, "", "diff", "-f", samples); stdout != "" {
		t.Errorf("diff: got %s", stdout)
	}
	kubectl(t, "", "delete", "namespace", "inference-cache-samples", "--timeout=2m")
	stdout, _ = kubectl(t, "", "get", "cb,cpol,ct", "-n", "inference-cache-samples", "-o", "name")
	if stdout != "" {
		t.Errorf("left behind: %s", stdout)
	}
}

// TestKubectlGet checks the columns of every kind, by its full, singular and short names: a value that is not known is
// blank, and zero is a value.
func TestKubectlGet(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, external("external", "lm://kv.example.net:65432"))
	observed := createBackend(t, namespace, managed("observed"))
	observed.Status = v1alpha1.CacheBackendStatus{
		Endpoint:           "observed." + namespace + ".svc:65432",
		MatchedEnginePods:  new(int32(0)),
		IndexParticipation: &v1alpha1.IndexParticipation{PrefixCount: 7, LastEventAt: new(metav1.NewTime(time.Now().Add(-3 * time.Hour)))},
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionUnknown, Reason: "Tested", LastTransitionTime: metav1.Now()},
		},
	}
	if _, err := backendsIn(namespace).UpdateStatus(t.Context(), observed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl(t, `{apiVersion: inferencecache.io/v1alpha1, kind: CachePolicy, metadata: {name: policy}, spec: {eviction: LFU}}`, "create", "-n", namespace, "-f", "-")
	kubectl(t, `{apiVersion: inferencecache.io/v1alpha1, kind: CacheTenant, metadata: {name: tenant}, spec: {tenantID: org/a, quota: {maxIndexEntries: 0}}}`, "create", "-n", namespace, "-f", "-")

	const age = "AGE"
	for _, test := range []struct {
		names   []string
		headers []string
		rows    []map[string]string
	}{{
		names:   []string{"cachebackends", "cachebackend", "cb"},
		headers: []string{"NAME", "TYPE", "READY", "MATCHED", "ENDPOINT", "PREFIXES", "LASTEVENT", age},
		rows: []map[string]string{
			{"NAME": "external", "TYPE": "LMCache", "READY": "True", "MATCHED": "", "ENDPOINT": "lm://kv.example.net:65432", "PREFIXES": "", "LASTEVENT": "<none>"},
			{"NAME": "observed", "TYPE": "LMCache", "READY": "Unknown", "MATCHED": "0", "ENDPOINT": "observed." + namespace + ".svc:65432", "PREFIXES": "7", "LASTEVENT": "3h"},
		},
	}, {
		names:   []string{"cachepolicies", "cachepolicy", "cpol"},
		headers: []string{"NAME", "EVICTION", age},
		rows:    []map[string]string{{"NAME": "policy", "EVICTION": "LFU"}},
	}, {
		names:   []string{"cachetenants", "cachetenant", "ct"},
		headers: []string{"NAME", "TENANT", "ENTRIES", "QUOTA", "ISOLATION", age},
		rows:    []map[string]string{{"NAME": "tenant", "TENANT": "org/a", "ENTRIES": "", "QUOTA": "0", "ISOLATION": "Fairness"}},
	}} {
		for _, name := range test.names {
			stdout, _ := kubectl(t, "", "get", name, "-n", namespace)
			headers, rows := parseTable(t, stdout)
			if !slices.Equal(headers, test.headers) || len(rows) != len(test.rows) {
				t.Errorf("get %s: got\n%s", name, stdout)
				continue
			}
			for i, want := range test.rows {
				if rows[i][age] == "" {
					t.Errorf("get %s: row %d has no age", name, i)
				}
				for header, cell := range want {
					// An age is cut off before it depends on the speed of the test.
					if got := rows[i][header]; got != cell && !(header == "LASTEVENT" && strings.HasPrefix(got, cell)) {
						t.Errorf("get %s: row %d has %s %q, want %q", name, i, header, got, cell)
					}
				}
			}
		}
	}
}

// TestKubectlWatch checks that `kubectl get -w` prints a change when it happens.
func TestKubectlWatch(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createBackend(t, namespace, external("a", "before.example.net:1"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	output := &output{}
	cmd := exec.CommandContext(ctx, env.cluster.Programs["kubectl"], "--kubeconfig", env.cluster.Kubeconfig,
		"get", "cachebackend", "a", "-n", namespace, "-w")
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output.await(t, "before.example.net:1")
	kubectl(t, "", "patch", "cachebackend", "a", "-n", namespace, "--type=merge", "-p", `{"spec":{"remoteStorage":{"endpoint":"after.example.net:2"}}}`)
	output.await(t, "after.example.net:2")
	cancel()
	_ = cmd.Wait() // It was killed.
}

// output collects what a running program prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) await(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the output has "+text, func(context.Context) (bool, error) {
		return strings.Contains(o.String(), text), nil
	})
}
