// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestKernelCheckModes(t *testing.T) {
	t.Parallel()
	gpu := func(limits, requests string) corev1.ResourceRequirements {
		list := func(text string) corev1.ResourceList {
			if text == "" {
				return nil
			}
			return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(text)}
		}
		return corev1.ResourceRequirements{Limits: list(limits), Requests: list(requests)}
	}
	tests := []struct {
		name      string
		mode      string
		resources corev1.ResourceRequirements
		image     string
		ordinary  bool
		want      string
	}{
		{name: "auto with a limit", mode: "auto", resources: gpu("1", ""), want: "0"},
		{name: "auto with a request", mode: "auto", resources: gpu("", "1"), want: "0"},
		{name: "auto with none", mode: "auto"},
		{name: "auto with 0", mode: "auto", resources: gpu("0", "0")},
		{name: "auto with an odd one", mode: "auto", resources: gpu("1e2000000000", ""), want: "0"},
		{name: "unset", resources: gpu("1", ""), want: "0"},
		{name: "unset with none"},
		{name: "unknown is auto", mode: "Strict", resources: gpu("1", ""), want: "0"},
		{name: "unknown with none", mode: "Strict"},
		{name: "report-only", mode: "report-only", want: "0"},
		{name: "strict", mode: "strict", want: "1"},
		{name: "off", mode: "off", resources: gpu("1", "")},
		{name: "no image", mode: "strict", image: "-"},
		{name: "name of an ordinary container", mode: "strict", ordinary: true},
	}
	for _, tt := range tests {
		for _, planted := range []bool{false, true} {
			pod := enginePod("vllm")
			pod.Spec.Containers[0].Resources = tt.resources
			if tt.image == "-" {
				pod.Spec.Containers[0].Image = ""
			}
			if tt.ordinary {
				pod.Spec.Containers = append(pod.Spec.Containers, containers(ContainerKernelCheck)...)
			}
			pod.Spec.InitContainers = containers("first", "last")
			wantNames := "first last"
			if tt.want != "" {
				wantNames = "first last " + ContainerKernelCheck
			}
			if planted {
				pod.Spec.InitContainers = containers("first", ContainerKernelCheck, "last")
				if tt.want != "" {
					wantNames = "first " + ContainerKernelCheck + " last"
				}
			}
			wired := mustWire(t, vllmLMCache, pod, Wiring{KernelCheck: tt.mode}, Subscriber{})
			var names []string
			for _, container := range wired.Spec.InitContainers {
				names = append(names, container.Name)
			}
			if got := strings.Join(names, " "); got != wantNames {
				t.Errorf("%s, planted %v: init containers %q, want %q", tt.name, planted, got, wantNames)
				continue
			}
			if i := indexContainer(wired.Spec.InitContainers, ContainerKernelCheck); i >= 0 {
				env := wired.Spec.InitContainers[i].Env
				if last := env[len(env)-1]; last.Name != EnvKernelCheckStrict || last.Value != tt.want {
					t.Errorf("%s, planted %v: the last variable is %v", tt.name, planted, last)
				}
			}
		}
	}
}

func TestKernelCheckShape(t *testing.T) {
	t.Parallel()
	pod := enginePod("vllm")
	engine := &pod.Spec.Containers[0]
	engine.ImagePullPolicy = corev1.PullAlways
	engine.WorkingDir = "/srv"
	engine.Command = []string{"vllm"}
	engine.Ports = []corev1.ContainerPort{{ContainerPort: 8000}}
	engine.Env = variables("KERNEL_CHECK_STRICT=1\nHOME=/\nKERNEL_CHECK_STRICT=")
	engine.EnvFrom = []corev1.EnvFromSource{{Prefix: "X"}}
	engine.VolumeMounts = []corev1.VolumeMount{{Name: "weights", MountPath: "/models"}}
	engine.VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/disk"}}
	engine.SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	engine.LivenessProbe = &corev1.Probe{}
	engine.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}

	wiring := Wiring{Overrides: Overrides{SuppressEnv: []string{"LMCACHE_CHUNK_SIZE"}, Env: variables("NEW=1")}}
	wired := mustWire(t, vllmLMCache, pod, wiring, Subscriber{})
	got := wired.Spec.InitContainers[0]
	want := corev1.Container{
		Name: "lmcache-kernel-check", Image: "engine:1", ImagePullPolicy: corev1.PullAlways, WorkingDir: "/srv",
		Command: []string{"python3", "-c", detector},
		Env:     append(removeEnv(wired.DeepCopy().Spec.Containers[0].Env, EnvKernelCheckStrict), corev1.EnvVar{Name: EnvKernelCheckStrict, Value: "0"}),
		EnvFrom: engine.EnvFrom, VolumeMounts: engine.VolumeMounts, VolumeDevices: engine.VolumeDevices,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"cpu": resource.MustParse("50m"), "memory": resource.MustParse("256Mi")}},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
		SecurityContext: engine.SecurityContext,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("init container (-want +got):\n%s", diff)
	}
	if indexEnv(got.Env, "NEW") < 0 || indexEnv(got.Env, "LMCACHE_CHUNK_SIZE") >= 0 {
		t.Errorf("the environment is not the overridden one: %v", got.Env)
	}
	if got.SecurityContext == wired.Spec.Containers[0].SecurityContext {
		t.Error("both containers share a security context")
	}
}

// TestDetectorText holds on machines without Python too.
func TestDetectorText(t *testing.T) {
	t.Parallel()
	at := 0
	for _, part := range []string{
		`find_spec("lmcache")`, "sorted(", `"c_ops*.so"`, "import torch", "ctypes.CDLL(",
		"except BaseException", "FAIL: ", "3500", `"/dev/termination-log"`, `os.environ.get("KERNEL_CHECK_STRICT") == "1"`,
	} {
		i := strings.Index(detector[at:], part)
		if i < 0 {
			t.Fatalf("%s is missing or out of order", part)
		}
		at += i
	}
	for _, bad := range []string{"import lmcache", "PyInit", "$("} {
		if strings.Contains(detector, bad) {
			t.Errorf("there is a %s", bad)
		}
	}
}

// TestDetector runs the detector with packages that stand in for the real ones.
func TestDetector(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("there is no python3; TestDetectorText is all that checks the detector")
		return
	}
	library := sharedLibrary(t, python)
	good, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	const bad = "not a library"
	tests := []struct {
		name  string
		files map[string]string
		// want is the message, or its beginning.
		want string
	}{
		{name: "loads", files: map[string]string{"lmcache/__init__.py": "raise SystemExit(9)", "lmcache/c_ops.cpython-312.so": string(good),
			"torch.py": ""}, want: "OK"},
		{name: "first of several", files: map[string]string{"lmcache/__init__.py": "", "lmcache/c_ops.a.so": string(good), "lmcache/c_ops.b.so": bad,
			"torch.py": ""}, want: "OK"},
		{name: "first is broken", files: map[string]string{"lmcache/__init__.py": "", "lmcache/c_ops.a.so": bad, "lmcache/c_ops.b.so": string(good),
			"torch.py": ""}, want: "FAIL: OSError: OSError("},
		{name: "no package", files: map[string]string{"torch.py": ""}, want: "FAIL: the package lmcache is not installed"},
		{name: "a module", files: map[string]string{"lmcache.py": "", "torch.py": ""}, want: "FAIL: the package lmcache is not installed"},
		{name: "no kernels", files: map[string]string{"lmcache/__init__.py": "", "lmcache/other.so": string(good), "lmcache/sub/c_ops.so": string(good),
			"torch.py": ""}, want: "FAIL: there is no c_ops library"},
		{name: "no torch", files: map[string]string{"lmcache/__init__.py": "", "lmcache/c_ops.so": string(good), "torch.py": "raise ImportError('gone')"},
			want: "FAIL: ImportError: ImportError('gone')"},
		{name: "torch exits", files: map[string]string{"lmcache/__init__.py": "", "lmcache/c_ops.so": string(good), "torch.py": "raise SystemExit(7)"},
			want: "FAIL: SystemExit: SystemExit(7)"},
		{name: "torch exits late", files: map[string]string{"lmcache/__init__.py": "", "lmcache/c_ops.so": string(good),
			"torch.py": "import atexit, os; atexit.register(lambda: os._exit(8))"}, want: "OK"},
		{name: "long cause", files: map[string]string{"lmcache/__init__.py": "", "lmcache/c_ops.so": string(good), "torch.py": "raise ValueError('x' * 9000)"},
			want: ("FAIL: ValueError: ValueError('" + strings.Repeat("x", 9000))[:3500]},
		{name: "long cause of wide characters", files: map[string]string{"lmcache/__init__.py": "", "lmcache/c_ops.so": string(good),
			"torch.py": "raise ValueError(chr(0x4e2d) * 9000)"}, want: "FAIL: ValueError: ValueError('" + strings.Repeat("\u4e2d", 1355)},
	}
	for _, tt := range tests {
		modes := []string{"1"}
		if tt.name == "loads" || tt.name == "no torch" {
			modes = []string{"1", "0", "", "true"}
		}
		for _, strict := range modes {
			t.Run(tt.name+" "+strict, func(t *testing.T) {
				t.Parallel()
				message, code := runDetector(t, python, tt.files, strict)
				if tt.want == "OK" && message != "OK" || !strings.HasPrefix(message, tt.want) || len(message) > 4096 {
					t.Errorf("message is %q, want %q", message, tt.want)
				}
				want := 0
				if tt.want != "OK" && strict == "1" {
					want = 1
				}
				if code != want {
					t.Errorf("exit code is %d, want %d", code, want)
				}
			})
		}
	}
	t.Run("the message cannot be written", func(t *testing.T) {
		t.Parallel()
		program := strings.ReplaceAll(detector, "/dev/termination-log", t.TempDir()+"/missing/log")
		if out, err := pythonCommand(t, python, program, t.TempDir(), "0").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// runDetector returns the message and the exit code.
func runDetector(t *testing.T, python string, files map[string]string, strict string) (message string, code int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	out, err := pythonCommand(t, python, strings.ReplaceAll(detector, "/dev/termination-log", log), dir, strict).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(text), code
}

func pythonCommand(t *testing.T, python, program, dir, strict string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, "-c", program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1", EnvKernelCheckStrict+"="+strict)
	if strict == "" {
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	}
	return cmd
}

// sharedLibrary returns a library that any Python can load: one of its own modules. It has
// no init function by the name of the kernels, and must not need one.
func sharedLibrary(t *testing.T, python string) string {
	t.Helper()
	const program = `
import importlib
for name in ("_ctypes", "_json", "_struct", "_hashlib", "_ssl"):
    try:
        print(importlib.import_module(name).__file__)
        break
    except (ImportError, AttributeError):
        pass
`
	out, err := exec.CommandContext(t.Context(), python, "-c", program).Output()
	path := strings.TrimSpace(string(out))
	if err != nil || path == "" {
		t.Fatalf("this Python has no module that is a library: %v", err)
	}
	return path
}
