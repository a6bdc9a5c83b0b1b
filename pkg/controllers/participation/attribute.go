// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// enginePod is what decides which backend a pod belongs to.
type enginePod struct {
	labels map[string]string
	// injectedBy is the annotation of the webhook, empty when there is none.
	injectedBy string
}

// podsByNamespace has the pods of each namespace by name.
type podsByNamespace map[string]map[string]enginePod

// attribute gives each replica to at most one backend, and returns the share of every
// backend that got one. Replicas without a pod are nobody's: their engines are gone.
func attribute(replicas []cacheserver.Replica, backends []v1alpha1.CacheBackend, pods podsByNamespace) map[types.NamespacedName]*share {
	claims := claimsOf(backends)
	shares := map[types.NamespacedName]*share{}
	for i := range replicas {
		replica := &replicas[i]
		pod, found := pods[replica.Tenant][replica.ID]
		if !found {
			continue
		}
		owner, found := claims[replica.Tenant].owner(replica.Tenant, pod)
		if !found {
			continue
		}
		key := types.NamespacedName{Namespace: replica.Tenant, Name: owner}
		if shares[key] == nil {
			shares[key] = &share{}
		}
		shares[key].add(replica)
	}
	return shares
}

// claims is what the backends of one namespace claim.
type claims struct {
	names sets.Set[string]
	// selectors are those that select something, in the order of the names.
	selectors []selector
}

type selector struct {
	backend string
	engines labels.Selector
}

func claimsOf(backends []v1alpha1.CacheBackend) map[string]claims {
	byNamespace := map[string]claims{}
	for i := range backends {
		backend := &backends[i]
		c := byNamespace[backend.Namespace]
		if c.names == nil {
			c.names = sets.New[string]()
		}
		c.names.Insert(backend.Name)
		if engines := backend.Spec.EngineSelector; engines != nil && len(engines.MatchLabels) != 0 {
			c.selectors = append(c.selectors, selector{backend: backend.Name, engines: labels.SelectorFromSet(engines.MatchLabels)})
		}
		byNamespace[backend.Namespace] = c
	}
	for _, c := range byNamespace {
		slices.SortFunc(c.selectors, func(a, b selector) int { return cmp.Compare(a.backend, b.backend) })
	}
	return byNamespace
}

// owner is the name of the backend that a pod of the namespace belongs to. The webhook's word
// holds, even for a backend that is gone. For pods that it has not wired, the backend that it
// would have chosen is taken: the first whose selector fits. What names another namespace
// is not the webhook's.
func (c claims) owner(namespace string, pod enginePod) (string, bool) {
	if in, name, ok := strings.Cut(pod.injectedBy, "/"); ok && in == namespace {
		return name, c.names.Has(name)
	}
	for _, selector := range c.selectors {
		if selector.engines.Matches(labels.Set(pod.labels)) {
			return selector.backend, true
		}
	}
	return "", false
}
