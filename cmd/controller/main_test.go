// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/yaml"
)

// TestFlags: manifests and charts are written against these. One of the flags goes through a global of its library, so the
// tests of this file do not run in parallel.
func TestFlags(t *testing.T) {
	logging := pflag.NewFlagSet("", pflag.ContinueOnError)
	logsapi.AddFlags(logs.NewOptions(), logging)
	defaults := map[string]string{}
	newCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		if logging.Lookup(flag.Name) == nil {
			defaults[flag.Name] = flag.DefValue
		}
	})
	if diff := cmp.Diff(map[string]string{
		"metrics-bind-address": ":8080", "metrics-secure": "false", "enable-http2": "false",
		"health-probe-bind-address": ":8081", "leader-elect": "false", "kubeconfig": "",
		"server-snapshot-url": "http://inference-cache-server:8081/snapshot", "cacheindex-refresh-interval": "30s",
		"server-probe-url":  "http://inference-cache-server:8081/probe",
		"server-policy-url": "http://inference-cache-server:8081/policy", "cachepolicy-push-interval": "30s",
		"server-token-file": "/var/run/secrets/inferencecache.io/controller-token/token",
		"policy-token-file": "/var/run/secrets/inferencecache.io/policy-token/token",
		"server-ca-file":    "", "server-tls-server-name": "",
	}, defaults); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

func readDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	data, err := os.ReadFile("../../artifacts/base/controller-deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
		t.Fatal(err)
	}
	return &deployment
}

// TestManifest: the pod's arguments exist, and its ports are where the program listens.
func TestManifest(t *testing.T) {
	pod := readDeployment(t).Spec.Template.Spec
	if limit := *pod.TerminationGracePeriodSeconds; shutdownTimeout.Seconds() >= float64(limit) {
		t.Errorf("passes may take %s at the end, the pod is killed after %d s", shutdownTimeout, limit)
	}
	cmd := newCommand()
	if err := cmd.ParseFlags(pod.Containers[0].Args); err != nil {
		t.Fatal(err)
	}
	listens := map[string]string{
		"metrics": cmd.Flag("metrics-bind-address").Value.String(), "probe": cmd.Flag("health-probe-bind-address").Value.String(),
	}
	if diff := cmp.Diff(map[string]string{"metrics": ":8080", "probe": ":8081"}, listens); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	ports := map[string]int32{}
	for _, port := range pod.Containers[0].Ports {
		ports[port.Name] = port.ContainerPort
	}
	if diff := cmp.Diff(map[string]int32{"metrics": 8080, "probe": 8081}, ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if cmd.Flag("leader-elect").Value.String() != "true" || pod.SecurityContext.RunAsNonRoot == nil {
		t.Error("the pod does not elect a leader or may run as root")
	}
	if diff := cmp.Diff([]corev1.Capability{"ALL"}, pod.Containers[0].SecurityContext.Capabilities.Drop); diff != "" {
		t.Errorf("dropped capabilities (-want +got):\n%s", diff)
	}
}

// TestTokensInManifest: the tokens are where the program reads them, for the audiences that the cache server asks for.
func TestTokensInManifest(t *testing.T) {
	pod := readDeployment(t).Spec.Template.Spec
	projected := map[string]corev1.ServiceAccountTokenProjection{}
	for _, volume := range pod.Volumes {
		if volume.Projected != nil && len(volume.Projected.Sources) == 1 {
			projected[volume.Name] = *volume.Projected.Sources[0].ServiceAccountToken
		}
	}
	got := map[string]corev1.ServiceAccountTokenProjection{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		token := projected[mount.Name]
		got[path.Join(mount.MountPath, token.Path)] = token
		if !mount.ReadOnly {
			t.Errorf("%s can be written", mount.MountPath)
		}
	}
	flags := newCommand().Flags()
	want := map[string]corev1.ServiceAccountTokenProjection{
		flags.Lookup("server-token-file").DefValue: {Audience: "inferencecache.io/controller", ExpirationSeconds: new(int64(3600)), Path: "token"},
		flags.Lookup("policy-token-file").DefValue: {Audience: "inferencecache.io/policy", ExpirationSeconds: new(int64(3600)), Path: "token"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func TestCacheServerURLs(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string // Part of the error, empty for none.
	}{
		"defaults":          {nil, ""},
		"no probe":          {[]string{"--server-probe-url="}, ""},
		"no snapshot":       {[]string{"--server-snapshot-url="}, "--server-snapshot-url"},
		"no policy":         {[]string{"--server-policy-url="}, "--server-policy-url"},
		"unusable snapshot": {[]string{"--server-snapshot-url=server/snapshot"}, "--server-snapshot-url"},
		"unusable policy":   {[]string{"--server-policy-url=ftp://server/policy"}, "--server-policy-url"},
	} {
		var o cacheServerOptions
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(flags)
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		_, err := o.clients()
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestPodsAreTrimmed: the cache holds every pod of the cluster, and must hold next to nothing of each.
func TestPodsAreTrimmed(t *testing.T) {
	trimmed := false
	for object, options := range cacheOptions().ByObject {
		if _, ok := object.(*corev1.Pod); !ok {
			continue
		}
		held, err := options.Transform(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "foreign", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foreign"}}
		if diff := cmp.Diff(want, held); diff != "" {
			t.Errorf("the cache holds (-want +got):\n%s", diff)
		}
		trimmed = true
	}
	if !trimmed {
		t.Error("pods are held as they are")
	}
}
