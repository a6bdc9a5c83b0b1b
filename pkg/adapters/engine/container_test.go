// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func containers(names ...string) []corev1.Container {
	list := make([]corev1.Container, 0, len(names))
	for _, name := range names {
		list = append(list, corev1.Container{Name: name, Image: "image:1"})
	}
	return list
}

func TestEngineContainer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		containers     []string
		initContainers []string
		want           int
	}{
		{name: "by name", containers: []string{"proxy", "vllm", "log"}, want: 1},
		{name: "first of the name", containers: []string{"vllm", "vllm"}, want: 0},
		{name: "alone", containers: []string{"main"}, want: 0},
		{name: "alone beside the subscriber", containers: []string{"kvevent-subscriber", "main"}, want: 1},
		{name: "several", containers: []string{"main", "log"}, want: -1},
		{name: "several beside the subscriber", containers: []string{"main", "log", "kvevent-subscriber"}, want: -1},
		{name: "the subscriber alone", containers: []string{"kvevent-subscriber"}, want: -1},
		{name: "none", want: -1},
		{name: "init containers do not count", containers: []string{"main", "log"}, initContainers: []string{"vllm"}, want: -1},
		{name: "the case counts", containers: []string{"VLLM", "log"}, want: -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := &corev1.PodSpec{Containers: containers(tt.containers...), InitContainers: containers(tt.initContainers...)}
			got := EngineContainer(spec, "vllm")
			var want *corev1.Container
			if tt.want >= 0 {
				want = &spec.Containers[tt.want]
			}
			if got != want {
				t.Errorf("container is %v, want %v", got, want)
			}
		})
	}
}
