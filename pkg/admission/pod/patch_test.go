// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// change is something that the webhook may do to a pod.
type change func(*corev1.Pod)

var changes = map[string]change{
	"annotate": func(p *corev1.Pod) { p.Annotations = map[string]string{"a/b": "c", "~": "d"} },
	"append args and env": func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Args = append(c.Args, "--flag", "value")
		c.Env = append(c.Env, corev1.EnvVar{Name: "NEW", Value: ""})
	},
	"upsert env": func(p *corev1.Pod) { p.Spec.Containers[0].Env[1] = corev1.EnvVar{Name: "B", Value: "new"} },
	"remove env": func(p *corev1.Pod) { p.Spec.Containers[0].Env = p.Spec.Containers[0].Env[1:] },
	"append containers": func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "subscriber"})
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "check"})
	},
	"remove and replace init containers": func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{p.Spec.InitContainers[1], {Name: "last"}}
	},
	"swap containers": func(p *corev1.Pod) {
		c := p.Spec.Containers
		c[0], c[1] = c[1], c[0]
	},
	"volumes": func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "shm",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append([]corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}, c.VolumeMounts...)
	},
	"host network": func(p *corev1.Pod) {
		p.Spec.HostNetwork, p.Spec.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	},
	"nothing": func(*corev1.Pod) {},
}

const received = `{
 "apiVersion": "v1", "kind": "Pod",
 "metadata": {"name": "p", "creationTimestamp": null, "labels": {"app": "engine"}},
 "spec": {
  "initContainers": [{"name": "first", "image": "i"}, {"name": "second", "image": "i", "args": []}],
  "containers": [
   {"name": "engine", "image": "i", "args": ["serve"], "resources": {"limits": {"cpu": "1000m", "memory": 1024}},
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}],
    "securityContext": {"runAsUser": 9007199254740993}},
   {"name": "sidecar", "image": "i", "env": null}],
  "terminationGracePeriodSeconds": 9223372036854775807
 }}`

func decode(t testing.TB, data []byte) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// apply changes the received pod as kube-apiserver would: by the patch.
func apply(t testing.TB, data []byte, change change) ([]byte, *corev1.Pod) {
	t.Helper()
	before := decode(t, data)
	after := before.DeepCopy()
	change(after)
	encoded, err := patchFor(data, before, after)
	if err != nil {
		t.Fatal(err)
	}
	if encoded == nil {
		return data, after
	}
	patch, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		t.Fatalf("decoding %s: %v", encoded, err)
	}
	patched, err := patch.Apply(data)
	if err != nil {
		t.Fatalf("applying %s: %v", encoded, err)
	}
	return patched, after
}

func TestPatchIsTheDifference(t *testing.T) {
	t.Parallel()
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patched, want := apply(t, []byte(received), change)
			if diff := cmp.Diff(want, decode(t, patched)); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoPatchForNoDifference(t *testing.T) {
	t.Parallel()
	pod := decode(t, []byte(received))
	patch, err := patchFor([]byte(received), pod, pod.DeepCopy())
	if err != nil || patch != nil {
		t.Errorf("got patch %s and error %v, want neither", patch, err)
	}
}

// named says whether everything that is told apart by its name has one, which the API server sees to.
func named(spec *corev1.PodSpec) bool {
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		if container.Name == "" || slices.ContainsFunc(container.Env, func(env corev1.EnvVar) bool { return env.Name == "" }) {
			return false
		}
	}
	return true
}

// FuzzUnknownFields puts unknown fields into every object of a pod. Whatever is changed,
// the known part of the result is that of the pod without them, and none of them is lost
// but with the object that it was in.
func FuzzUnknownFields(f *testing.F) {
	for seed := range int64(3) {
		f.Add(seed, []byte(received))
	}
	f.Fuzz(func(t *testing.T, seed int64, data []byte) {
		var tree any
		// Bytes that are no text, which kube-apiserver does not send, do not survive the planting.
		if !utf8.Valid(data) || decodeTree(data, &tree) != nil {
			return
		}
		pod := &corev1.Pod{}
		if kjson.UnmarshalCaseSensitivePreserveInts(data, pod) != nil || len(pod.Spec.Containers) < 2 ||
			len(pod.Spec.InitContainers) < 2 || len(pod.Spec.Containers[0].Env) < 2 || !named(&pod.Spec) {
			return
		}
		random := rand.New(rand.NewSource(seed))
		planted := plant(random, tree, nil)
		strange, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		if kjson.UnmarshalCaseSensitivePreserveInts(strange, &corev1.Pod{}) != nil {
			return // planted into a map
		}
		for name, change := range changes {
			want, _ := apply(t, data, change)
			got, _ := apply(t, strange, change)
			var result any
			if err := decodeTree(got, &result); err != nil {
				t.Fatal(err)
			}
			left := uproot(result)
			known, err := json.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			if !jsonpatch.Equal(want, known) {
				t.Errorf("%s: unknown fields change the rest\nwithout: %s\nwith:    %s", name, want, known)
			}
			if removing := name == "remove env" || name == "remove and replace init containers" || name == "swap containers"; !removing && left != planted {
				t.Errorf("%s: %d of %d unknown fields are left", name, left, planted)
			}
		}
	})
}

const unknown = "zzUnknown"

// plant adds unknown members to the objects of a tree, where Kubernetes has types and not
// maps, and returns how many.
func plant(random *rand.Rand, tree any, path []string) int {
	planted := 0
	switch value := tree.(type) {
	case map[string]any:
		for name, member := range value {
			planted += plant(random, member, append(path, name))
		}
		if isMap(path) || random.Intn(3) == 0 {
			return planted
		}
		value[unknown] = []any{json.Number("1"), map[string]any{"deep": nil}, fmt.Sprint(random.Int63())}
		planted++
	case []any:
		for _, element := range value {
			planted += plant(random, element, path)
		}
	}
	return planted
}

// isMap says whether a path leads to a map, whose members all are known.
func isMap(path []string) bool {
	if len(path) == 0 {
		return false
	}
	switch path[len(path)-1] {
	case "labels", "annotations", "limits", "requests", "nodeSelector", "matchLabels", "overhead":
		return true
	}
	return bytes.Contains([]byte(path[len(path)-1]), []byte(unknown))
}

// uproot removes what plant added and returns how much that was.
func uproot(tree any) int {
	removed := 0
	switch value := tree.(type) {
	case map[string]any:
		if _, ok := value[unknown]; ok {
			delete(value, unknown)
			removed++
		}
		for _, member := range value {
			removed += uproot(member)
		}
	case []any:
		for _, element := range value {
			removed += uproot(element)
		}
	}
	return removed
}
