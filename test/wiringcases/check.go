// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiringcases

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

// Form is how results are looked at. The zero Form is for what the webhook returns, given
// the pod of the case.
type Form struct {
	// Normalize gives a pod what results have besides the wiring. For a result of an API
	// server, it sends the pod to the same API server where no webhook changes it (a
	// namespace that is left out, best with a dry run), and returns the answer.
	Normalize func(*corev1.Pod) (*corev1.Pod, error)
	// Annotations replaces parts of the values of annotations, such as the uid of a
	// backend, that came out otherwise than in the case.
	Annotations *strings.Replacer
}

// Check compares what became of the pod of a case with what the case expects. It builds the
// pod that should have come out, so that nothing else may have changed either. The scripts
// of workers are run, for which it needs a sh.
func (f Form) Check(c Case, result *corev1.Pod) error {
	problems := []error{f.checkAnnotations(c.Expect.Annotations, result.Annotations)}
	want, err := expected(c, result)
	if err != nil {
		return errors.Join(append(problems, err)...)
	}
	if f.Normalize == nil {
		problems = append(problems, checkPatch(c, result))
	} else if want, err = f.Normalize(want); err != nil {
		return errors.Join(append(problems, fmt.Errorf("normalizing the pod: %w", err))...)
	}
	if diff := diffSpecs(want.Spec, result.Spec); diff != "" {
		problems = append(problems, fmt.Errorf("spec (-want +got):\n%s", diff))
	}
	for _, container := range slices.Concat(c.Expect.InitContainers, c.Expect.Containers) {
		if err := checkScript(container, result.Spec); err != nil {
			problems = append(problems, fmt.Errorf("container %s: %w", container.Name, err))
		}
	}
	return errors.Join(problems...)
}

// CheckUnchanged compares a wired pod with what becomes of it when it is wired again.
func CheckUnchanged(first, second *corev1.Pod) error {
	if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("wiring again changes the pod (-first +second):\n%s", diff)
	}
	return nil
}

func (f Form) checkAnnotations(want, got map[string]string) error {
	want = maps.Clone(want)
	if f.Annotations != nil {
		for key, value := range want {
			want[key] = f.Annotations.Replace(value)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("annotations (-want +got):\n%s", diff)
	}
	return nil
}

func checkPatch(c Case, result *corev1.Pod) error {
	same := cmp.Equal(c.Pod, result, cmpopts.EquateEmpty())
	switch {
	case same && c.Expect.Patch == NonEmpty:
		return errors.New("nothing changes")
	case !same && c.Expect.Patch == Empty:
		return fmt.Errorf("changes (-before +after):\n%s", cmp.Diff(c.Pod, result, cmpopts.EquateEmpty()))
	}
	return nil
}

// expected builds the pod that should have come out. What the case leaves open is taken
// from the result.
func expected(c Case, result *corev1.Pod) (*corev1.Pod, error) {
	want := c.Pod.DeepCopy()
	if c.Expect.Spec == unchanged {
		return want, nil
	}
	var err, initErr error
	want.Spec.Containers, err = expectedContainers(c.Expect.Containers, c.Pod.Spec.Containers, result.Spec.Containers)
	want.Spec.InitContainers, initErr = expectedContainers(c.Expect.InitContainers, c.Pod.Spec.InitContainers, result.Spec.InitContainers)
	want.Spec.HostNetwork = *c.Expect.HostNetwork
	want.Spec.DNSPolicy = *c.Expect.DNSPolicy
	want.Spec.Volumes = c.Expect.Volumes
	return want, errors.Join(err, initErr)
}

func expectedContainers(list []Container, before, result []corev1.Container) ([]corev1.Container, error) {
	var want []corev1.Container
	for _, container := range list {
		old, got := find(before, container.Name), find(result, container.Name)
		if (old == nil) != (container.State == StateAdded) {
			return nil, fmt.Errorf("container %s: the case says that it is %s, which cannot be", container.Name, container.State)
		}
		switch container.State {
		case StateUnchanged, StateChanged:
			want = append(want, container.applyTo(*old.DeepCopy()))
		default:
			spec := *container.Spec.DeepCopy()
			spec.Name = container.Name
			if got != nil {
				fillPlaceholders(&spec, got)
			}
			want = append(want, spec)
		}
	}
	return want, nil
}

func (c *Container) applyTo(container corev1.Container) corev1.Container {
	if c.Args != nil {
		container.Args = c.Args
	}
	if c.Env != nil {
		container.Env = c.Env
	}
	if c.VolumeMounts != nil {
		container.VolumeMounts = c.VolumeMounts
	}
	return container
}

// fillPlaceholders takes from the result what may be anything.
func fillPlaceholders(want, got *corev1.Container) {
	fillTexts(want.Command, got.Command)
	fillTexts(want.Args, got.Args)
	if want.StartupProbe != nil && want.StartupProbe.Exec != nil && got.StartupProbe != nil && got.StartupProbe.Exec != nil {
		fillTexts(want.StartupProbe.Exec.Command, got.StartupProbe.Exec.Command)
	}
}

func fillTexts(want, got []string) {
	for i, text := range want {
		if (text == "<script>" || text == "<probe>") && i < len(got) && got[i] != "" {
			want[i] = got[i]
		}
	}
}

func find(containers []corev1.Container, name string) *corev1.Container {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &containers[i]
}

// diffSpecs leaves out the token that API servers mount in pods: it has another name in
// each pod, and its place depends on what is added before and after it.
func diffSpecs(want, got corev1.PodSpec) string {
	token := func(name string) bool { return strings.HasPrefix(name, "kube-api-access-") }
	return cmp.Diff(want, got,
		cmpopts.IgnoreSliceElements(func(v corev1.Volume) bool { return token(v.Name) }),
		cmpopts.IgnoreSliceElements(func(m corev1.VolumeMount) bool { return token(m.Name) }),
		cmpopts.EquateEmpty())
}
