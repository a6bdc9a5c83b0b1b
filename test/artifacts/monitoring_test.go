// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// ruleGroups is the format of rule files, and the spec of a PrometheusRule, as far as it is used here.
type ruleGroups struct {
	Groups []ruleGroup `json:"groups"`
}

type ruleGroup struct {
	Name     string `json:"name"`
	Interval string `json:"interval"`
	Rules    []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// operatorObject is an object of the Prometheus operator. Its types are not linked: what is used of them is small.
type operatorObject[Spec any] struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec `json:"spec"`
}

// monitorSpec is that of a ServiceMonitor or a PodMonitor.
type monitorSpec struct {
	Selector            metav1.LabelSelector `json:"selector"`
	Endpoints           []scrapeEndpoint     `json:"endpoints,omitempty"`
	PodMetricsEndpoints []scrapeEndpoint     `json:"podMetricsEndpoints,omitempty"`
}

type scrapeEndpoint struct {
	Port          string `json:"port"`
	Path          string `json:"path"`
	Interval      string `json:"interval"`
	ScrapeTimeout string `json:"scrapeTimeout"`
}

// readMonitoring decodes the only document of a file strictly.
func readMonitoring[T any](t *testing.T, name string) T {
	t.Helper()
	documents := readDocuments(t, filepath.Join(root, "monitoring", name))
	if len(documents) != 1 {
		t.Fatalf("%s: %d documents, want 1", name, len(documents))
	}
	var value T
	if err := yaml.UnmarshalStrict(documents[0].yaml, &value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// alertRules are the rules of the rule file.
func alertRules(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for _, group := range readMonitoring[ruleGroups](t, "prometheus/rules.yaml").Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("no rules")
	}
	return rules
}

// checkIdentity wants an object of the operator to be found under its documented name.
func checkIdentity(t *testing.T, typeMeta metav1.TypeMeta, meta metav1.ObjectMeta, kind, name string) {
	t.Helper()
	if typeMeta.APIVersion != "monitoring.coreos.com/v1" || typeMeta.Kind != kind {
		t.Errorf("%s of %s, want %s", typeMeta.Kind, typeMeta.APIVersion, kind)
	}
	if meta.Namespace != systemNamespace || meta.Name != name {
		t.Errorf("%s %s/%s, want %s", kind, meta.Namespace, meta.Name, name)
	}
}

func TestBothFormsOfTheRulesAreEqual(t *testing.T) {
	object := readMonitoring[operatorObject[ruleGroups]](t, "prometheusrule.yaml")
	checkIdentity(t, object.TypeMeta, object.ObjectMeta, "PrometheusRule", "inference-cache-alerts")
	if diff := cmp.Diff(readMonitoring[ruleGroups](t, "prometheus/rules.yaml"), object.Spec); diff != "" {
		t.Errorf("rules (-rules.yaml +prometheusrule.yaml):\n%s", diff)
	}
}

// TestAlerts pins what people route and silence alerts by.
func TestAlerts(t *testing.T) {
	type alert struct{ Group, Name, Severity, For string }
	want := []alert{
		{"inferencecache-health", "IndexEmpty", "critical", "2m"},
		{"inferencecache-health", "LMCacheT2NoHits", "warning", "5m"},
		{"inferencecache-routing", "LookupRouteDegenerate", "warning", "5m"},
		{"inferencecache-routing", "LookupRouteHighTimeout", "warning", "5m"},
		{"inferencecache-capacity", "IndexEvictionsSpike", "info", "10m"},
		{"inferencecache-cachebackend", "ServerProbeFail", "critical", "5m"},
		{"inferencecache-cachebackend", "BackendT2Degraded", "warning", "5m"},
	}
	var got []alert
	for _, group := range readMonitoring[ruleGroups](t, "prometheus/rules.yaml").Groups {
		if group.Interval != "30s" {
			t.Errorf("%s: interval %q, want 30s", group.Name, group.Interval)
		}
		for _, r := range group.Rules {
			got = append(got, alert{group.Name, r.Alert, r.Labels["severity"], r.For})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

// headings are the anchors of the second-level headings of a document.
func headings(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for line := range strings.Lines(string(content)) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			anchors = append(anchors, strings.ReplaceAll(strings.ToLower(title), " ", "-"))
		}
	}
	return anchors
}

func TestAlertsLeadToTheirRunbook(t *testing.T) {
	const runbooks = "https://github.com/inference-cache/inferencecache/blob/main/docs/alerts.md#"
	anchors := headings(t, "../../docs/alerts.md")
	for _, r := range alertRules(t) {
		if got := r.Labels["component"]; got != "inference-cache" || len(r.Labels) != 2 {
			t.Errorf("%s: labels %v, want severity and component inference-cache", r.Alert, r.Labels)
		}
		anchor := strings.ToLower(r.Alert)
		if got := r.Annotations["runbook_url"]; got != runbooks+anchor || !slices.Contains(anchors, anchor) {
			t.Errorf("%s: runbook %q, want a heading of docs/alerts.md", r.Alert, got)
		}
	}
}

// metricName finds the metrics in an expression.
var metricName = regexp.MustCompile(`\b(?:inferencecache_|vllm:)\w+`)

// groupedBy finds the labels that an expression keeps.
var groupedBy = regexp.MustCompile(`by \(([a-z, ]+)\)`)

// TestSummariesAreTemplates renders them with what Prometheus gives to them. A label that the expression does not keep would
// be left blank in every alert.
func TestSummariesAreTemplates(t *testing.T) {
	const preamble = "{{$labels := .Labels}}{{$value := .Value}}" // The one that Prometheus puts before each of them.
	asIs := func(v any) any { return v }
	functions := template.FuncMap{"humanize": asIs, "humanizePercentage": asIs}
	for _, r := range alertRules(t) {
		kept := map[string]string{}
		for _, match := range groupedBy.FindAllStringSubmatch(r.Expr, -1) {
			for label := range strings.SplitSeq(match[1], ", ") {
				kept[label] = "x"
			}
		}
		tmpl, err := template.New(r.Alert).Option("missingkey=error").Funcs(functions).Parse(preamble + r.Annotations["summary"])
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		var summary strings.Builder
		if err := tmpl.Execute(&summary, map[string]any{"Labels": kept, "Value": 1.5}); err != nil || summary.Len() == 0 {
			t.Errorf("%s: summary %q: %v", r.Alert, summary.String(), err)
		}
	}
}

// TestOperandsKeepTheSameLabels: "and", "unless", "or" and "/" join series by all their labels, so that operands which keep
// others would never meet, and the alert would be silent or never end.
func TestOperandsKeepTheSameLabels(t *testing.T) {
	for _, r := range alertRules(t) {
		matches := groupedBy.FindAllStringSubmatch(r.Expr, -1)
		if len(matches) == 0 || len(matches) != len(metricName.FindAllString(r.Expr, -1)) {
			t.Errorf("%s: not every metric is aggregated by labels: %s", r.Alert, r.Expr)
			continue
		}
		for _, match := range matches {
			if match[1] != matches[0][1] {
				t.Errorf("%s: by (%s) meets by (%s)", r.Alert, matches[0][1], match[1])
			}
		}
	}
}

// controllerMetrics are the names that the source of the controller gives to its metrics.
func controllerMetrics(t *testing.T) []string {
	t.Helper()
	name := regexp.MustCompile(`Name:\s+"(inferencecache_[a-z0-9_]+)"`)
	var names []string
	err := filepath.WalkDir("../../pkg/controllers", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range name.FindAllSubmatch(content, -1) {
			names = append(names, string(match[1]))
		}
		return nil
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("%d metrics of the controller: %v", len(names), err)
	}
	return names
}

// TestExpressionsUseMetricsThatExist: an alert on a misspelled metric never fires, and nobody notices. Those of programs
// outside this repository are listed.
func TestExpressionsUseMetricsThatExist(t *testing.T) {
	known := append(controllerMetrics(t),
		"inferencecache_server_up",
		"inferencecache_index_entries",
		"inferencecache_index_evictions_total",
		"inferencecache_lookup_route_calls_total",
		"vllm:external_prefix_cache_queries", "vllm:external_prefix_cache_queries_total",
		"vllm:external_prefix_cache_hits", "vllm:external_prefix_cache_hits_total",
	)
	for _, r := range alertRules(t) {
		for _, name := range metricName.FindAllString(r.Expr, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: nothing exports %s", r.Alert, name)
			}
		}
	}
}

// balanced reports whether the brackets of an expression, outside its strings, are closed in order.
func balanced(expr string) bool {
	closing := map[rune]rune{'(': ')', '[': ']', '{': '}'}
	var open []rune
	quoted := false
	for _, r := range expr {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case closing[r] != 0:
			open = append(open, closing[r])
		case strings.ContainsRune(")]}", r):
			if len(open) == 0 || open[len(open)-1] != r {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0 && !quoted
}

// TestExpressions pins them, without regard to line breaks. Nothing here parses PromQL.
func TestExpressions(t *testing.T) {
	want := map[string]string{
		"IndexEmpty": `( max by (namespace) (inferencecache_server_up) == 1` +
			` and sum by (namespace) (rate(inferencecache_lookup_route_calls_total[10m])) > 0 )` +
			` unless sum by (namespace) (inferencecache_index_entries) > 0`,
		"LMCacheT2NoHits": `( sum by (namespace, pod) (rate(vllm:external_prefix_cache_queries_total[10m])) > 1000` +
			` or sum by (namespace, pod) (rate(vllm:external_prefix_cache_queries[10m])) > 1000 )` +
			` unless ( sum by (namespace, pod) (rate(vllm:external_prefix_cache_hits_total[10m])) > 0` +
			` or sum by (namespace, pod) (rate(vllm:external_prefix_cache_hits[10m])) > 0 )`,
		"LookupRouteDegenerate":  lookupShare("NO_HINT", "0.9", "0.1"),
		"LookupRouteHighTimeout": lookupShare("TIMEOUT", "0.05", "1"),
		"IndexEvictionsSpike": `sum by (namespace, algorithm)` +
			` (rate(inferencecache_index_evictions_total{reason="cap"}[10m])) > 10`,
		"ServerProbeFail": `sum by (namespace, backend, stage)` +
			` (increase(inferencecache_backend_probe_result_total{result="failed"}[5m])) >= 2`,
		"BackendT2Degraded": `sum by (namespace, backend) (rate(inferencecache_backend_t2_query_tokens_total[10m])) > 1000` +
			` and max by (namespace, backend) (inferencecache_backend_t2_hit_rate) == 0`,
	}
	got := map[string]string{}
	for _, r := range alertRules(t) {
		got[r.Alert] = strings.Join(strings.Fields(r.Expr), " ")
		if !balanced(r.Expr) {
			t.Errorf("%s: brackets are not balanced", r.Alert)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("expressions (-want +got):\n%s", diff)
	}
}

// lookupShare holds where a reason has more than a share of the look-ups, and these come at more than a rate.
func lookupShare(reason, share, rate string) string {
	all := `sum by (namespace, model) (rate(inferencecache_lookup_route_calls_total[10m]))`
	some := `sum by (namespace, model) (rate(inferencecache_lookup_route_calls_total{reason_code="` + reason + `"}[10m]))`
	return some + " / " + all + " > " + share + " and " + all + " > " + rate
}

func TestMonitors(t *testing.T) {
	for _, m := range []struct{ file, kind, name, port string }{
		{"servicemonitor.yaml", "ServiceMonitor", "inference-cache-server", "http"},
		{"podmonitor.yaml", "PodMonitor", "inference-cache-controller", "metrics"},
	} {
		monitor := readMonitoring[operatorObject[monitorSpec]](t, m.file)
		checkIdentity(t, monitor.TypeMeta, monitor.ObjectMeta, m.kind, m.name)
		got, other := monitor.Spec.Endpoints, monitor.Spec.PodMetricsEndpoints
		if m.kind == "PodMonitor" {
			got, other = other, got
		}
		want := []scrapeEndpoint{{Port: m.port, Path: "/metrics", Interval: "30s", ScrapeTimeout: "10s"}}
		if diff := cmp.Diff(want, got); diff != "" || other != nil {
			t.Errorf("%s: endpoints of the wrong kind %v, of the right one (-want +got):\n%s", m.file, other, diff)
		}
	}
}

// TestPodMonitorFindsTheController follows its selector and its port to the Deployment, and lets it find nothing else.
func TestPodMonitorFindsTheController(t *testing.T) {
	monitor := readMonitoring[operatorObject[monitorSpec]](t, "podmonitor.yaml")
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	objects := base(t)
	pod := one[*appsv1.Deployment](t, objects).Spec.Template
	if !selector.Matches(labels.Set(pod.Labels)) {
		t.Errorf("%s does not select the controller", selector)
	}
	if selector.Matches(labels.Set(one[*appsv1.StatefulSet](t, objects).Spec.Template.Labels)) {
		t.Errorf("%s selects the API server", selector)
	}
	if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return p.Name == monitor.Spec.PodMetricsEndpoints[0].Port
	}) {
		t.Error("the controller has no such port")
	}
}

// TestMonitoringIsOptional: clusters without the operator do not know its kinds, and could not apply an installation that
// has them.
func TestMonitoringIsOptional(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var k kustomization
		if err := yaml.Unmarshal(content, &k); err != nil {
			return err
		}
		for _, name := range slices.Concat(k.Resources, k.Components) {
			included := filepath.Join(filepath.Dir(path), name)
			if filepath.Base(included) == "monitoring" {
				t.Errorf("%s includes %s", path, included)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
