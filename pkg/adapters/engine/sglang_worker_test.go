// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/test/wiringcases"
)

func TestRESPAdapter(t *testing.T) {
	t.Parallel()
	tests := []struct{ endpoint, want string }{
		{endpoint: "h:1", want: `{"type":"resp","host":"h","port":1}`},
		{endpoint: "h:06379", want: `{"type":"resp","host":"h","port":6379}`},
		{endpoint: "h:65535", want: `{"type":"resp","host":"h","port":65535}`},
		{endpoint: "[2001:db8::7]:6379", want: `{"type":"resp","host":"2001:db8::7","port":6379}`},
		{endpoint: `a"b'c$(d):1`, want: `{"type":"resp","host":"a\"b'c\u0024(d)","port":1}`},
		{endpoint: ""}, {endpoint: "h"}, {endpoint: "h:"}, {endpoint: ":1"}, {endpoint: "h:0"}, {endpoint: "h:65536"},
		{endpoint: "h:+1"}, {endpoint: "h:x"}, {endpoint: "h:1:2"}, {endpoint: "redis://h:1"},
		{endpoint: "h:1/0"}, {endpoint: "h h:1"}, {endpoint: "2001:db8::7:6379"},
	}
	for _, tt := range tests {
		got, err := respAdapter(tt.endpoint)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q becomes %q with the error %v, want %q", tt.endpoint, got, err, tt.want)
		}
	}
	mustReject(t, sglangLMCache, enginePod("sglang"), Wiring{Binding: &binding.Binding{Protocol: "resp", Endpoint: "h"}}, "endpoint")
}

func TestWorkerValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		lmCache LMCache
		want    worker
	}{
		{name: "defaults", want: worker{port: 5555, chunkSizeTokens: 256, memoryGiB: 4}},
		{name: "all", lmCache: LMCache{
			ChunkSizeTokens: new(int32(131072)), WorkerPort: new(int32(65535)), WorkerImage: "worker:1", HostMemory: new(resource.MustParse("2Ti"))},
			want: worker{image: "worker:1", port: 65535, chunkSizeTokens: 131072, memoryGiB: 2048}},
		{name: "out of range", lmCache: LMCache{
			ChunkSizeTokens: new(int32(0)), WorkerPort: new(int32(65536)), HostMemory: new(resource.MustParse("0"))},
			want: worker{port: 5555, chunkSizeTokens: 256, memoryGiB: 4}},
		{name: "far out of range", lmCache: LMCache{
			ChunkSizeTokens: new(int32(-5)), WorkerPort: new(int32(0)), HostMemory: new(resource.MustParse("1e2000000000"))},
			want: worker{port: 5555, chunkSizeTokens: 256, memoryGiB: 4}},
	}
	for _, tt := range tests {
		got, err := newWorker(Wiring{LMCache: tt.lmCache})
		if err != nil || got != tt.want {
			t.Errorf("%s: worker %+v with the error %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestWorkerMemory(t *testing.T) {
	t.Parallel()
	for gib, want := range map[int64]string{4: "5Gi", 11: "12Gi", 2048: "2049Gi", 1023: "1Ti", 9313225747: "9223372036854775807"} {
		quantity := worker{memoryGiB: gib}.memory()
		if quantity.String() != want {
			t.Errorf("%d GiB need %s, want %s", gib, quantity.String(), want)
		}
	}
}

// TestWorkerScript runs the script. It may contain texts of an operator.
func TestWorkerScript(t *testing.T) {
	t.Parallel()
	for _, remoteTier := range []string{
		"", `{"type":"resp","host":"h","port":1}`, `'; echo "$(id)" >&2; exit 7; '`, "back\\slash `id` $HOME \"x\" *", "a\nb",
	} {
		w := worker{port: 6001, chunkSizeTokens: 128, memoryGiB: 11, remoteTier: remoteTier}
		config, argv, err := wiringcases.RunWorkerScript(t.Context(), w.script())
		if err != nil {
			t.Errorf("with %q: %v", remoteTier, err)
			continue
		}
		if want := "chunk_size: 128\nmp_host: \"127.0.0.1\"\nmp_port: 6001\n"; config != want {
			t.Errorf("configuration is %q, want %q", config, want)
		}
		want := strings.Fields("python3 -m lmcache.v1.multiprocess.server --host 127.0.0.1 --port 6001 --chunk-size 128 --l1-size-gb 11 --eviction-policy LRU")
		if remoteTier != "" {
			want = append(want, "--l2-adapter", remoteTier)
		}
		if diff := cmp.Diff(want, argv); diff != "" {
			t.Errorf("command (-want +got):\n%s", diff)
		}
	}
}

// TestWorkerScriptStops checks that no server runs without its configuration.
func TestWorkerScriptStops(t *testing.T) {
	t.Parallel()
	script := strings.ReplaceAll(worker{}.script(), workerConfigFile, t.TempDir()+"/missing/config.yaml")
	if _, argv, err := wiringcases.RunWorkerScript(t.Context(), script); err == nil {
		t.Errorf("the script went on to %q", argv)
	}
}

func TestWorkerProbe(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	program := worker{port: int32(port)}.probe()
	python, err := exec.LookPath("python3")
	if err != nil {
		// Without a Python there is but the text to go by.
		if !strings.Contains(program, "127.0.0.1") || !strings.Contains(program, ", 1)") {
			t.Errorf("the program is %q", program)
		}
		return
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", program).CombinedOutput(); err != nil {
		t.Errorf("with a listener: %v: %s", err, out)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", program).CombinedOutput(); err == nil {
		t.Errorf("without a listener the probe succeeds: %s", out)
	}
}

func TestWorkerSecurity(t *testing.T) {
	t.Parallel()
	want := func(change func(*corev1.SecurityContext)) *corev1.SecurityContext {
		security := &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: "RuntimeDefault"},
		}
		change(security)
		return security
	}
	engine := &corev1.SecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(0)), RunAsGroup: new(int64(5)), Privileged: new(true),
		ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}},
	}
	if diff := cmp.Diff(want(func(*corev1.SecurityContext) {}), workerSecurity(nil)); diff != "" {
		t.Errorf("without one (-want +got):\n%s", diff)
	}
	got := workerSecurity(engine)
	if diff := cmp.Diff(want(func(s *corev1.SecurityContext) {
		s.RunAsNonRoot, s.RunAsUser, s.RunAsGroup = engine.RunAsNonRoot, engine.RunAsUser, engine.RunAsGroup
	}), got); diff != "" {
		t.Errorf("with that of an engine (-want +got):\n%s", diff)
	}
	if got.RunAsUser == engine.RunAsUser {
		t.Error("both share a number")
	}
}

// TestStoredWorkerIsKept wires a pod once more after an API server has filled it in.
func TestStoredWorkerIsKept(t *testing.T) {
	t.Parallel()
	stored := mustWire(t, sglangLMCache, enginePod("sglang"), Wiring{}, Subscriber{})
	container := &stored.Spec.InitContainers[0]
	container.ImagePullPolicy = corev1.PullIfNotPresent
	container.TerminationMessagePath = corev1.TerminationMessagePathDefault
	container.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	container.StartupProbe.TimeoutSeconds, container.StartupProbe.SuccessThreshold = 1, 1
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-x", MountPath: mountServiceAccount, ReadOnly: true})
	again := mustWire(t, sglangLMCache, stored, Wiring{}, Subscriber{})
	if err := wiringcases.CheckUnchanged(stored, again); err != nil {
		t.Error(err)
	}

	// What no API server fills in is not kept.
	amended := stored.DeepCopy()
	container = &amended.Spec.InitContainers[0]
	container.TerminationMessagePath = "/mine"
	container.StartupProbe.TimeoutSeconds = 9
	container.WorkingDir = "/mine"
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "mine", MountPath: "/mine"})
	rendered := mustWire(t, sglangLMCache, amended, Wiring{}, Subscriber{}).Spec.InitContainers[0]
	want := *stored.Spec.InitContainers[0].DeepCopy()
	want.TerminationMessagePath = ""
	want.StartupProbe.TimeoutSeconds = 0
	if diff := cmp.Diff(want, rendered, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
}
