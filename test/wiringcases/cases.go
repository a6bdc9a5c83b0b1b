// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wiringcases reads the golden cases of engine wiring: a pod that is created next
// to backends, and what must become of it. It does not know who wires the pod, so that the
// wiring can be held to the same cases on its own, in the webhook, and in a cluster.
package wiringcases

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Outcome is what becomes of a pod.
type Outcome string

const (
	// Wired pods are changed and stamped.
	Wired Outcome = "wired"
	// Unwired pods are admitted without wiring.
	Unwired Outcome = "unwired"
	// Skipped pods have opted out.
	Skipped Outcome = "skipped"
)

// Patch says whether anything changes.
type Patch string

const (
	// Empty patches leave the pod as it is.
	Empty Patch = "empty"
	// NonEmpty patches change it.
	NonEmpty Patch = "non-empty"
)

// Case is one golden case.
type Case struct {
	// Name is the name of the file, without its extension.
	Name string `json:"-"`
	// Comment says what the case shows.
	Comment string  `json:"-"`
	Options Options `json:"options"`
	// Backend has only what the case says: no defaults.
	Backend *v1alpha1.CacheBackend `json:"backend"`
	// Pod is created in its own namespace.
	Pod    *corev1.Pod `json:"pod"`
	Expect Expect      `json:"expect"`
}

// Options are the flags of the webhook, and its surroundings.
type Options struct {
	SubscriberImage     string `json:"subscriberImage,omitempty"`
	PolicyServerAddress string `json:"policyServerAddress,omitempty"`
	// OtherBackends exist besides the backend, some in other namespaces.
	OtherBackends []v1alpha1.CacheBackend `json:"otherBackends,omitempty"`
}

// Backends returns all backends of a case.
func (c *Case) Backends() []v1alpha1.CacheBackend {
	return append([]v1alpha1.CacheBackend{*c.Backend}, c.Options.OtherBackends...)
}

// Expect is what must become of the pod.
type Expect struct {
	Outcome Outcome `json:"outcome"`
	// Reason is the category of the reason, empty for a wired pod.
	Reason string `json:"reason,omitempty"`
	Patch  Patch  `json:"patch"`
	// Annotations are all annotations of the result.
	Annotations map[string]string `json:"annotations"`
	// Spec is "unchanged", or empty for a wired pod with the fields below.
	Spec string `json:"spec,omitempty"`

	HostNetwork    *bool             `json:"hostNetwork,omitempty"`
	DNSPolicy      *corev1.DNSPolicy `json:"dnsPolicy,omitempty"`
	InitContainers []Container       `json:"initContainers,omitempty"`
	Containers     []Container       `json:"containers,omitempty"`
	Volumes        []corev1.Volume   `json:"volumes,omitempty"`
}

const unchanged = "unchanged"

// State says how a container of the result relates to that of the same name in the pod.
type State string

const (
	// StateUnchanged containers are as they were.
	StateUnchanged State = unchanged
	// StateChanged containers are as they were but for the listed fields.
	StateChanged State = "changed"
	// StateAdded containers were not there.
	StateAdded State = "added"
	// StateReplaced containers have nothing of the old one.
	StateReplaced State = "replaced"
)

// Container is what a case says about a container of the result.
type Container struct {
	Name  string `json:"name"`
	State State  `json:"state"`

	// Args, Env and VolumeMounts are the listed fields of a changed container.
	Args         []string             `json:"args,omitempty"`
	Env          []corev1.EnvVar      `json:"env,omitempty"`
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// Spec is the whole of an added or replaced container, but for its name. Texts in
	// pointed brackets stand for anything that is not empty.
	Spec *corev1.Container `json:"spec,omitempty"`
	// WorkerScript is what the script of the container does.
	WorkerScript *WorkerScript `json:"workerScript,omitempty"`
}

// WorkerScript is what the script of a worker does.
type WorkerScript struct {
	// Config is the content of the file that it writes.
	Config map[string]any `json:"config"`
	// Argv is the command that it becomes.
	Argv []string `json:"argv"`
}

// Load reads every case of a folder, in the order of their names.
func Load(dir string) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing cases: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases in %s", dir)
	}
	cases := make([]Case, 0, len(files))
	for _, file := range files {
		c, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func read(file string) (Case, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Case{}, err
	}
	var c Case
	// Strict, since a misspelt expectation would pass unnoticed.
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Case{}, err
	}
	c.Name = strings.TrimSuffix(filepath.Base(file), ".yaml")
	line, _, _ := bytes.Cut(data, []byte("\n"))
	comment, found := strings.CutPrefix(string(line), "# ")
	if !found {
		return Case{}, errors.New("the first line is no comment")
	}
	c.Comment = comment
	return c, c.validate()
}

// validate refuses cases that cannot mean what they say.
func (c *Case) validate() error {
	switch {
	case c.Backend == nil:
		return errors.New("the case has no backend")
	case c.Pod == nil:
		return errors.New("the case has no pod")
	case c.Expect.Patch != Empty && c.Expect.Patch != NonEmpty:
		return fmt.Errorf("the patch %q is neither %s nor %s", c.Expect.Patch, Empty, NonEmpty)
	case c.Expect.Annotations == nil:
		return errors.New("the case expects no annotations; write {} for none")
	}
	return c.Expect.validate()
}

func (e *Expect) validate() error {
	if !slices.Contains([]Outcome{Wired, Unwired, Skipped}, e.Outcome) {
		return fmt.Errorf("the outcome %q is unknown", e.Outcome)
	}
	if (e.Outcome == Wired) != (e.Reason == "") {
		return errors.New("a pod that is not wired needs a reason and a wired one has none")
	}
	listed := e.HostNetwork != nil || e.DNSPolicy != nil || e.InitContainers != nil || e.Containers != nil || e.Volumes != nil
	switch e.Spec {
	case unchanged:
		if listed {
			return errors.New("a spec that is unchanged has nothing else to expect")
		}
		return nil
	case "":
		if e.HostNetwork == nil || e.DNSPolicy == nil || e.InitContainers == nil || len(e.Containers) == 0 || e.Volumes == nil {
			return errors.New("a spec that changes needs hostNetwork, dnsPolicy, initContainers, containers and volumes")
		}
	default:
		return fmt.Errorf("the spec %q is not %s", e.Spec, unchanged)
	}
	for _, container := range slices.Concat(e.InitContainers, e.Containers) {
		if err := container.validate(); err != nil {
			return fmt.Errorf("container %s: %w", container.Name, err)
		}
	}
	return nil
}

func (c *Container) validate() error {
	listed := c.Args != nil || c.Env != nil || c.VolumeMounts != nil
	switch c.State {
	case StateUnchanged:
		if listed || c.Spec != nil || c.WorkerScript != nil {
			return errors.New("a container that is unchanged has nothing else to expect")
		}
	case StateChanged:
		if !listed || c.Spec != nil || c.WorkerScript != nil {
			return errors.New("a container that is changed lists args, env or volumeMounts and nothing else")
		}
	case StateAdded, StateReplaced:
		if listed || c.Spec == nil {
			return errors.New("a container that is added or replaced needs a spec")
		}
	default:
		return fmt.Errorf("the state %q is unknown", c.State)
	}
	return nil
}
