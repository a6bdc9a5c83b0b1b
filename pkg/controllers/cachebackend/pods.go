// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"inferencecache.io/inferencecache/pkg/adapters"
	"inferencecache.io/inferencecache/pkg/adapters/engine"
	"inferencecache.io/inferencecache/pkg/adapters/storage"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// podPage is how many pods are held at a time.
const podPage = 500

// podView is what the pods of its namespace say about a backend.
type podView struct {
	backend *v1alpha1.CacheBackend
	// selected matches the engine pods, nil without a selector.
	selected labels.Selector
	// engineName is the name of the engine's container, empty on paths that do not look
	// into engine pods.
	engineName string
	// own matches the pods of the tier, nil without one.
	own labels.Selector

	// err says why the rest is not known.
	err error

	pods, livePods int32
	ownPods        []corev1.Pod
	kernels        []KernelCheck
	crashLooping   []CrashLoop
	// replicaSets are those that control wired pods.
	replicaSets map[types.UID]metav1.OwnerReference
	// announced are the pods that an event has named as crash-looping, and remaining those
	// of them that there still are.
	announced, remaining sets.Set[types.UID]
}

func newPodView(backend *v1alpha1.CacheBackend, announced sets.Set[types.UID]) *podView {
	view := &podView{
		backend: backend, replicaSets: map[types.UID]metav1.OwnerReference{},
		announced: announced, remaining: sets.New[types.UID](),
	}
	if selected := selectorLabels(backend); len(selected) != 0 {
		view.selected = labels.SelectorFromSet(selected)
	}
	path := Classify(backend).Path
	if path == adapters.Managed {
		view.own = labels.SelectorFromSet(storage.SelectorLabels(backend.Name))
	}
	if path == adapters.Managed || path == adapters.HostOnly {
		if adapter, found := engine.Lookup(backend.Spec.Runtime, backend.Spec.Type); found {
			view.engineName = adapter.ContainerName()
		}
	}
	return view
}

// viewPods lists the pods that matter to a backend. They are not in the cache, since a
// cluster has too many.
func (r *Reconciler) viewPods(ctx context.Context, backend *v1alpha1.CacheBackend) *podView {
	view := newPodView(backend, r.memories.of(backend).announced)
	if err := view.list(ctx, r.live); err != nil {
		log.FromContext(ctx).Error(err, "Could not list pods")
		return &podView{backend: backend, selected: view.selected, err: err}
	}
	return view
}

// list reads the pods, page by page. The wiring of a pod is in its annotations, by which
// nothing can be selected, so it takes the whole namespace where that is asked for.
func (v *podView) list(ctx context.Context, reader client.Reader) error {
	options := []client.ListOption{client.InNamespace(v.backend.Namespace), client.Limit(podPage)}
	if v.engineName == "" {
		if v.selected == nil {
			return nil
		}
		options = append(options, client.MatchingLabelsSelector{Selector: v.selected})
	}
	for next := ""; ; {
		var page corev1.PodList
		if err := reader.List(ctx, &page, append(options, client.Continue(next))...); err != nil {
			return fmt.Errorf("listing the pods of the namespace: %w", err)
		}
		for i := range page.Items {
			v.add(&page.Items[i])
		}
		if next = page.Continue; next == "" {
			v.sort()
			return nil
		}
	}
}

func (v *podView) add(pod *corev1.Pod) {
	set := labels.Set(pod.Labels)
	selected := v.selected != nil && v.selected.Matches(set)
	if selected {
		v.pods++
		if !ended(pod) {
			v.livePods++
		}
	}
	if v.own != nil && v.own.Matches(set) {
		v.ownPods = append(v.ownPods, *pod)
	}
	if v.engineName == "" || !wiredTo(pod, v.backend) {
		return
	}
	known := v.announced.Has(pod.UID)
	if known {
		v.remaining.Insert(pod.UID)
	}
	if check, found := readKernelCheck(pod); found && selected {
		v.kernels = append(v.kernels, check)
	}
	if loop, found := readCrashLoop(pod, v.engineName); found {
		loop.Announced = known
		v.crashLooping = append(v.crashLooping, loop)
	}
	if owner := controllerOf(pod, "ReplicaSet"); owner != nil {
		v.replicaSets[owner.UID] = *owner
	}
}

// sort makes what is read from the pods independent of the order of the list.
func (v *podView) sort() {
	slices.SortFunc(v.ownPods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(v.kernels, func(a, b KernelCheck) int { return cmp.Compare(a.Pod, b.Pod) })
	slices.SortFunc(v.crashLooping, func(a, b CrashLoop) int { return cmp.Compare(a.Pod, b.Pod) })
}

// wiredTo says whether the webhook has wired a pod to this very backend.
func wiredTo(pod metav1.Object, backend *v1alpha1.CacheBackend) bool {
	annotations := pod.GetAnnotations()
	return annotations[v1alpha1.AnnotationInjectedBy] == client.ObjectKeyFromObject(backend).String() &&
		annotations[v1alpha1.AnnotationInjectedByUID] == string(backend.UID)
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
