// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/generated/informers/externalversions"
)

// TestInformer lets the generated informer follow a hundred changes, while both replicas of the API server and the cache server
// are restarted. It must end with the truth, and never lose the object on the way.
func TestInformer(t *testing.T) {
	working(t)
	ctx, cancel := context.WithCancel(t.Context())
	factory := externalversions.NewSharedInformerFactory(env.inference, 0)
	defer factory.Shutdown()
	defer cancel()
	informer := factory.Inferencecache().V1alpha1().CacheIndices()
	var mu sync.Mutex
	var adds, updates, deletes int
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { mu.Lock(); adds++; mu.Unlock() },
		UpdateFunc: func(any, any) { mu.Lock(); updates++; mu.Unlock() },
		DeleteFunc: func(any) { mu.Lock(); deletes++; mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("the informer of %s does not sync", kind)
		}
	}
	seen := func(want int64) func(context.Context) error {
		return func(context.Context) error {
			index, err := informer.Lister().Get(indexName)
			if err == nil && total(index) != want {
				err = fmt.Errorf("it shows %d, want %d", total(index), want)
			}
			return err
		}
	}

	const changes = 100
	for n := range int64(changes) {
		say(5000 + n)
		switch n {
		case 20:
			env.replicas[0].restart(t)
		case 40:
			if err := env.server.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := env.server.Start(); err != nil {
				t.Fatal(err)
			}
		case 60:
			env.replicas[1].restart(t)
		}
		if n%10 == 9 {
			eventually(t, fmt.Sprintf("the informer has seen change %d", n), seen(5000+n))
		}
	}

	var truth *v1alpha1.CacheIndex
	eventually(t, "a reader sees the last change", func(ctx context.Context) (err error) {
		truth, _, err = read(ctx)
		if err == nil && total(truth) != 5000+changes-1 {
			err = fmt.Errorf("it shows %d", total(truth))
		}
		return err
	})
	got, err := informer.Lister().List(labels.Everything())
	if err != nil || len(got) != 1 {
		t.Fatalf("the informer knows %d objects, %v", len(got), err)
	}
	// Each replica has versions and a time of change of its own, and here a URL too.
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		return slices.Contains([]string{"ObjectMeta.ResourceVersion", "Status.LastUpdated", "Status.ObservedServer"}, p.String())
	}, cmp.Ignore())
	if diff := cmp.Diff(truth, got[0], ignore, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("the informer ends with (-truth +informer):\n%s", diff)
	}
	mu.Lock()
	defer mu.Unlock()
	if adds != 1 || deletes != 0 || updates < changes/10 {
		t.Errorf("the informer told of %d additions, %d updates and %d deletions", adds, updates, deletes)
	}
}
