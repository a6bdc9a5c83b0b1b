// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// pageSize bounds what is decoded at once of a namespace with very many pods.
const pageSize = 500

// observation is what a tick reads besides the index.
type observation struct {
	backends []v1alpha1.CacheBackend
	pods     podsByNamespace
	// unlisted are the namespaces whose pods could not be listed. Nothing may follow from
	// the lack of a pod there.
	unlisted sets.Set[string]
	// err is about the unlisted namespaces.
	err error
}

// observe reads the backends, and the pods of the replicas that may be theirs: metadata only,
// one list for each namespace. Pods are not in the cache, since a cluster has too many.
func (p *Poller) observe(ctx context.Context, replicas []cacheserver.Replica) (*observation, error) {
	var backends v1alpha1.CacheBackendList
	if err := p.client.List(ctx, &backends); err != nil {
		return nil, fmt.Errorf("listing backends: %w", err)
	}
	named := replicasByNamespace(replicas, backends.Items)
	namespaces := sets.List(sets.KeySet(named))
	listed := make([]map[string]enginePod, len(namespaces))
	errs := concurrently(ctx, len(namespaces), func(ctx context.Context, i int) (err error) {
		listed[i], err = p.pods(ctx, namespaces[i], named[namespaces[i]])
		return err
	})
	o := &observation{backends: backends.Items, pods: podsByNamespace{}, unlisted: sets.New[string](), err: summary(errs)}
	for i, namespace := range namespaces {
		if errs[i] != nil {
			o.unlisted.Insert(namespace)
			continue
		}
		o.pods[namespace] = listed[i]
	}
	return o, nil
}

// replicasByNamespace has the names of the replicas in each namespace that has a backend.
func replicasByNamespace(replicas []cacheserver.Replica, backends []v1alpha1.CacheBackend) map[string]sets.Set[string] {
	served := sets.New[string]()
	for i := range backends {
		served.Insert(backends[i].Namespace)
	}
	named := map[string]sets.Set[string]{}
	for i := range replicas {
		replica := &replicas[i]
		if replica.ID == "" || !served.Has(replica.Tenant) {
			continue
		}
		if named[replica.Tenant] == nil {
			named[replica.Tenant] = sets.New[string]()
		}
		named[replica.Tenant].Insert(replica.ID)
	}
	return named
}

// pods returns those of the named pods of a namespace that exist.
func (p *Poller) pods(ctx context.Context, namespace string, named sets.Set[string]) (map[string]enginePod, error) {
	found := map[string]enginePod{}
	page := &metav1.PartialObjectMetadataList{}
	for {
		next := page.Continue
		page = &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := inTime(ctx, func(ctx context.Context) error {
			return p.live.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
		})
		if err != nil {
			return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
		}
		for i := range page.Items {
			if pod := &page.Items[i]; named.Has(pod.Name) {
				found[pod.Name] = enginePod{labels: pod.Labels, injectedBy: pod.Annotations[v1alpha1.AnnotationInjectedBy]}
			}
		}
		if page.Continue == "" {
			return found, nil
		}
	}
}
