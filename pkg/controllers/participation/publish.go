// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"context"
	"encoding/json"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// publishParticipation writes what is new in the participation of the backends. Those whose
// pods are not known keep what they have, and so do those that are being deleted.
func (p *Poller) publishParticipation(ctx context.Context, o *observation, shares map[types.NamespacedName]*share) error {
	type change struct {
		backend types.NamespacedName
		next    *v1alpha1.IndexParticipation
	}
	var changes []change
	for i := range o.backends {
		backend := &o.backends[i]
		if o.unlisted.Has(backend.Namespace) || !backend.DeletionTimestamp.IsZero() {
			continue
		}
		key := client.ObjectKeyFromObject(backend)
		stored := backend.Status.IndexParticipation
		if next := shares[key].participation(stored); !apiequality.Semantic.DeepEqual(stored, next) {
			changes = append(changes, change{backend: key, next: next})
		}
	}
	return summary(concurrently(ctx, len(changes), func(ctx context.Context, i int) error {
		return p.patchParticipation(ctx, changes[i].backend, changes[i].next)
	}))
}

// patchParticipation writes one field of a status that others write too, and all of that
// field: what is absent is said to be. So the write is right whatever is stored meanwhile,
// also when the cache does not show yet what the last tick wrote.
func (p *Poller) patchParticipation(ctx context.Context, key types.NamespacedName, next *v1alpha1.IndexParticipation) error {
	patch, err := participationPatch(next)
	if err != nil {
		return err
	}
	backend := &v1alpha1.CacheBackend{}
	backend.Namespace, backend.Name = key.Namespace, key.Name
	err = inTime(ctx, func(ctx context.Context) error {
		return p.client.Status().Patch(ctx, backend, client.RawPatch(types.MergePatchType, patch))
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating status of backend %s: %w", key, err)
	}
	return nil
}

func participationPatch(next *v1alpha1.IndexParticipation) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"indexParticipation": map[string]any{
		"prefixCount": next.PrefixCount, "lastEventAt": next.LastEventAt, "hitRate": next.HitRate, "t2HitRate": next.T2HitRate,
	}}})
	if err != nil {
		return nil, fmt.Errorf("encoding participation: %w", err)
	}
	return patch, nil
}

// publishTenants writes what is new in the statuses of tenants. A status that was decided on
// an old state of its tenant is refused; the next tick decides again.
func (p *Poller) publishTenants(ctx context.Context, tenants []v1alpha1.CacheTenant, statuses []v1alpha1.CacheTenantStatus) error {
	var changed []int
	for i := range tenants {
		if tenants[i].DeletionTimestamp.IsZero() && !apiequality.Semantic.DeepEqual(tenants[i].Status, statuses[i]) {
			changed = append(changed, i)
		}
	}
	return summary(concurrently(ctx, len(changed), func(ctx context.Context, i int) error {
		return p.patchTenant(ctx, &tenants[changed[i]], statuses[changed[i]])
	}))
}

func (p *Poller) patchTenant(ctx context.Context, tenant *v1alpha1.CacheTenant, status v1alpha1.CacheTenantStatus) error {
	next := tenant.DeepCopy()
	next.Status = status
	err := inTime(ctx, func(ctx context.Context) error {
		return p.client.Status().Patch(ctx, next, client.MergeFromWithOptions(tenant, client.MergeFromWithOptimisticLock{}))
	})
	switch {
	case apierrors.IsConflict(err):
		log.FromContext(ctx).V(4).Info("The tenant has changed during the tick", "tenant", klog.KObj(tenant))
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("updating status of tenant %s: %w", klog.KObj(tenant), err)
	default:
		return nil
	}
}
