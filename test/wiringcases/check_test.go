// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiringcases

import (
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// wire makes of the pod of a case what the case expects.
func wire(t *testing.T, c Case) *corev1.Pod {
	t.Helper()
	pod, err := expected(c, c.Pod)
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations = maps.Clone(c.Expect.Annotations)
	return pod
}

const script = `set -e
printf 'chunk_size: 128\nmp_host: "127.0.0.1"\nmp_port: 6001\n' > /etc/lmcache/config.yaml
exec python3 -m lmcache.v1.multiprocess.server --host 127.0.0.1 --port 6001 --chunk-size 128 --l1-size-gb 11 \
  --eviction-policy LRU --l2-adapter '{"type":"resp","host":"sgpool.team-red.svc.cluster.local","port":6379}'
`

// sglang is a case with a worker, wired as it expects.
func sglang(t *testing.T) (Case, *corev1.Pod) {
	t.Helper()
	cases, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	c := named(t, cases, "24-sglang-resp-typed")
	pod := wire(t, c)
	find(pod.Spec.InitContainers, "lmcache-mp-worker").Args = []string{script}
	return c, pod
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{name: "as expected", change: func(*corev1.Pod) {}},
		{name: "annotation missing", change: func(p *corev1.Pod) { delete(p.Annotations, "inferencecache.io/injected-by") }, want: "annotations"},
		{name: "one annotation more", change: func(p *corev1.Pod) { p.Annotations["x"] = "y" }, want: "annotations"},
		{name: "another field", change: func(p *corev1.Pod) { p.Spec.NodeName = "n" }, want: "NodeName"},
		{name: "host network", change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }, want: "HostNetwork"},
		{name: "volumes", change: func(p *corev1.Pod) { p.Spec.Volumes = nil }, want: "Volumes"},
		{name: "an init container changed", change: func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "x" }, want: "Image"},
		{name: "init containers in another order", change: func(p *corev1.Pod) {
			list := p.Spec.InitContainers
			list[0], list[1] = list[1], list[0]
		}, want: "InitContainers"},
		{name: "one container more", change: func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x"}) }, want: "Containers"},
		{name: "no worker", change: func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.InitContainers[:1] }, want: "there is no script"},
		{name: "empty script", change: func(p *corev1.Pod) { p.Spec.InitContainers[1].Args = []string{""} }, want: "<script>"},
		{name: "a field not listed", change: func(p *corev1.Pod) { p.Spec.Containers[0].WorkingDir = "/x" }, want: "WorkingDir"},
		{name: "a listed field", change: func(p *corev1.Pod) { p.Spec.Containers[0].Args = nil }, want: "Args"},
		{name: "another port in the script", change: func(p *corev1.Pod) {
			args := p.Spec.InitContainers[1].Args
			args[0] = strings.Replace(args[0], "mp_port: 6001", "mp_port: 6002", 1)
		}, want: "mp_port"},
		{name: "no exec", change: func(p *corev1.Pod) {
			args := p.Spec.InitContainers[1].Args
			args[0] = strings.Replace(args[0], "exec ", "", 1) + "true\n"
		}, want: "stays"},
		{name: "failing script", change: func(p *corev1.Pod) { p.Spec.InitContainers[1].Args[0] = "echo oh; exit 3" }, want: "oh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, pod := sglang(t)
			tt.change(pod)
			err := Form{}.Check(c, pod)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestCheckCases checks that each case can be met, and that none is met by the pod as it
// was unless the case says so.
func TestCheckCases(t *testing.T) {
	t.Parallel()
	cases, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		err := Form{}.Check(c, wire(t, c))
		// The placeholders are no scripts.
		if err != nil && !strings.Contains(err.Error(), "container lmcache-mp-worker: r") {
			t.Errorf("%s: %v", c.Name, err)
		}
		if err := (Form{}).Check(c, c.Pod); (err == nil) != (c.Expect.Patch == Empty) {
			t.Errorf("%s: the pod as it was gives the error %v", c.Name, err)
		}
	}
}

func TestCheckUnchanged(t *testing.T) {
	t.Parallel()
	_, pod := sglang(t)
	if err := CheckUnchanged(pod, pod.DeepCopy()); err != nil {
		t.Error(err)
	}
	other := pod.DeepCopy()
	other.Spec.Containers[0].Args = append(other.Spec.Containers[0].Args, "--more")
	if err := CheckUnchanged(pod, other); err == nil {
		t.Error("a change is no error")
	}
}

// stored gives a pod what API servers fill in, among it a token of a random name before
// what is there.
func stored(pod *corev1.Pod, name string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.SchedulerName = "default-scheduler"
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].TerminationMessagePath = "/dev/termination-log"
	}
	pod.Spec.Volumes = append([]corev1.Volume{{Name: "kube-api-access-" + name}}, pod.Spec.Volumes...)
	mounts := &pod.Spec.Containers[0].VolumeMounts
	*mounts = append([]corev1.VolumeMount{{Name: "kube-api-access-" + name, MountPath: "/var/run"}}, *mounts...)
	return pod
}

// TestCheckStored checks a pod as an API server returns it.
func TestCheckStored(t *testing.T) {
	t.Parallel()
	form := Form{
		Normalize:   func(pod *corev1.Pod) (*corev1.Pod, error) { return stored(pod, "a"), nil },
		Annotations: strings.NewReplacer("team-red/", "other/", "22222222-bbbb-4000-8000-000000000002", "real"),
	}
	c, pod := sglang(t)
	pod = stored(pod, "b")
	pod.Annotations["inferencecache.io/injected-by"] = "other/sgpool"
	pod.Annotations["inferencecache.io/injected-by-uid"] = "real"
	if err := form.Check(c, pod); err != nil {
		t.Error(err)
	}
	pod.Spec.SchedulerName = "mine"
	if err := form.Check(c, pod); err == nil || !strings.Contains(err.Error(), "SchedulerName") {
		t.Errorf("error is %v, want one with SchedulerName", err)
	}
	form.Normalize = func(*corev1.Pod) (*corev1.Pod, error) { return nil, errors.New("refused") }
	if err := form.Check(c, pod); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error is %v, want one with refused", err)
	}
}
