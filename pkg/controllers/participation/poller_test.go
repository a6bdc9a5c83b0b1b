// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// TestFailedScrapeChangesNothing: not even requests follow from it, and it is logged when it
// is news.
func TestFailedScrapeChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, backend("ns1", "cache"), newPod("ns1", "p0"), new(newTenant("ns1", "x", "T", 1)))
	r.holds(cacheserver.Replica{Tenant: "ns1", ID: "p0", PrefixCount: 2, T2HitTokens: 1, T2QueryTokens: 2})
	r.run()
	before := r.participation("ns1", "cache")
	r.logged = nil
	for range 3 {
		r.index.snapshot, r.index.err = nil, errRefused
		r.run()
		if len(r.lists)+len(r.patches) != 0 {
			t.Errorf("lists %v, patches %v", r.lists, r.patches)
		}
	}
	if len(r.logged) != 1 || !strings.Contains(r.logged[0], errRefused.Error()) {
		t.Errorf("logged %v", r.logged)
	}
	if diff := cmp.Diff(before, r.participation("ns1", "cache")); diff != "" || before == nil {
		t.Errorf("participation (-before +after):\n%s", diff)
	}
	if count, err := testutil.GatherAndCount(r.registry); count != 2 || err != nil {
		t.Errorf("%d series are left, %v", count, err)
	}
}

// TestDrain: what a backend had does not outlive its engines, but one that never had any is
// left alone.
func TestDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, backend("ns1", "alpha"), backend("ns1", "beta"), newPod("ns1", "p0"), newPod("ns1", "p1"))
	r.holds(replica("ns1", "p0", 2), replica("ns1", "p1", 3))
	r.run()
	want := &v1alpha1.IndexParticipation{PrefixCount: 5, LastEventAt: new(metav1.NewTime(start.Truncate(time.Second)))}
	if got := r.participation("ns1", "alpha"); !cmp.Equal(want, got) {
		t.Errorf("got %+v", got)
	}
	if got := r.participation("ns1", "beta"); got != nil {
		t.Errorf("a backend without replicas got %+v", got)
	}
	r.run()
	if len(r.patches) != 0 {
		t.Errorf("the same again writes %v", r.patches)
	}
	r.holds()
	r.run()
	if got := r.participation("ns1", "alpha"); !cmp.Equal(&v1alpha1.IndexParticipation{}, got) {
		t.Errorf("got %+v", got)
	}
	if got := r.participation("ns1", "beta"); got != nil {
		t.Errorf("a backend without replicas got %+v", got)
	}
	if !slices.Equal(r.patches, []string{"ns1/alpha"}) || len(r.lists) != 0 {
		t.Errorf("patches %v, lists %v", r.patches, r.lists)
	}
}

// TestUnlistedNamespace: nothing follows where the pods are not known, and nothing is held up
// elsewhere.
func TestUnlistedNamespace(t *testing.T) {
	t.Parallel()
	r := newRig(t, backend("ns1", "cache"), newPod("ns1", "p0"), backend("ns2", "cache"), newPod("ns2", "p0"), newPod("ns3", "p0"))
	r.holds(replica("ns1", "p0", 1), replica("ns2", "p0", 1), replica("ns3", "p0", 1))
	r.run()
	if want := []string{"ns1", "ns2"}; !slices.Equal(r.lists, want) {
		t.Errorf("listed %v, want %v", r.lists, want)
	}
	r.logged = nil
	r.failList = func(namespace string, _ client.ObjectList) error {
		if namespace == "ns1" {
			return apierrors.NewInternalError(errRefused)
		}
		return nil
	}
	for range 3 {
		r.holds(replica("ns1", "p0", 5), replica("ns2", "p0", 5), replica("ns2", "gone", 7))
		r.run()
	}
	for namespace, want := range map[string]int64{"ns1": 1, "ns2": 5} {
		if got := r.participation(namespace, "cache").PrefixCount; got != want {
			t.Errorf("%s: got %d, want %d", namespace, got, want)
		}
	}
	if len(r.logged) != 1 || !strings.Contains(r.logged[0], "ns1") {
		t.Errorf("logged %v", r.logged)
	}
}

// TestUnlistedBackends: without the backends nothing is known of the tiers either.
func TestUnlistedBackends(t *testing.T) {
	t.Parallel()
	r := newRig(t, backend("ns1", "cache"), newPod("ns1", "p0"), new(newTenant("ns1", "x", "T", 1)))
	r.holds(cacheserver.Replica{Tenant: "ns1", ID: "p0", T2QueryTokens: 2})
	r.run()
	r.failList = func(_ string, list client.ObjectList) error {
		if _, ok := list.(*v1alpha1.CacheBackendList); ok {
			return errRefused
		}
		return nil
	}
	r.index.snapshot = &cacheserver.Snapshot{Tenants: []cacheserver.Tenant{{ID: "T", IndexEntries: 4}}}
	r.run()
	if count, err := testutil.GatherAndCount(r.registry); count != 2 || err != nil {
		t.Errorf("%d series are left, %v", count, err)
	}
	if want := []string{"ns1/x"}; !slices.Equal(r.patches, want) {
		t.Errorf("patches %v, want %v", r.patches, want)
	}
}

// TestFailedWrites: none stops the others, and a backend that is gone is no failure.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	var replicas []cacheserver.Replica
	for i := range 20 {
		namespace := fmt.Sprintf("ns%d", i)
		objects = append(objects, backend(namespace, "cache"), newPod(namespace, "p0"))
		replicas = append(replicas, replica(namespace, "p0", 1))
	}
	r := newRig(t, objects...)
	r.holds(replicas...)
	r.failPatch = func(object client.Object) error {
		switch object.GetNamespace() {
		case "ns3":
			return errRefused
		case "ns4":
			return apierrors.NewNotFound(v1alpha1.Resource("cachebackends"), "cache")
		default:
			return nil
		}
	}
	r.run()
	if len(r.patches) != len(replicas) {
		t.Errorf("%d patches: %v", len(r.patches), r.patches)
	}
	for i := range 20 {
		if got := r.participation(fmt.Sprintf("ns%d", i), "cache"); (got == nil) != (i == 3 || i == 4) {
			t.Errorf("ns%d: got %+v", i, got)
		}
	}
	complaints := strings.Join(r.logged, "\n")
	if !strings.Contains(complaints, "ns3/cache") || strings.Contains(complaints, "more like it") {
		t.Errorf("logged %s", complaints)
	}
}

// TestDeletion: what is being deleted is not written to any more, and still has its pods.
func TestDeletion(t *testing.T) {
	t.Parallel()
	deleted := metav1.ObjectMeta{Namespace: "ns1", Name: "alpha", Finalizers: []string{"x/y"}, DeletionTimestamp: new(metav1.NewTime(start))}
	going := backend("ns1", "alpha")
	going.ObjectMeta = deleted
	tenant := new(newTenant("ns1", "alpha", "T", 1))
	tenant.ObjectMeta = deleted
	r := newRig(t, going, tenant, backend("ns1", "beta"), newPod("ns1", "p0"))
	r.holds(replica("ns1", "p0", 1))
	r.run()
	if len(r.patches) != 0 {
		t.Errorf("patches %v", r.patches)
	}
}

// TestPatchSaysWhatIsAbsent: the patch must be right whatever is stored.
func TestPatchSaysWhatIsAbsent(t *testing.T) {
	t.Parallel()
	got, err := participationPatch(&v1alpha1.IndexParticipation{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"status":{"indexParticipation":{"hitRate":null,"lastEventAt":null,"prefixCount":0,"t2HitRate":null}}}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestStaleCache: a tick that does not see yet what the last one wrote must still write what
// it says, absences included.
func TestStaleCache(t *testing.T) {
	t.Parallel()
	r := newRig(t, backend("ns1", "cache"), newPod("ns1", "p0"))
	stale, err := r.observe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.holds(replica("ns1", "p0", 5))
	r.run()
	drained := map[types.NamespacedName]*share{key("ns1", "cache"): {prefixCount: 7}}
	if err := r.publishParticipation(t.Context(), stale, drained); err != nil {
		t.Fatal(err)
	}
	if got := r.participation("ns1", "cache"); !cmp.Equal(&v1alpha1.IndexParticipation{PrefixCount: 7}, got) {
		t.Errorf("got %+v", got)
	}
}

// TestTenantOfAnOldState: it is decided about again, and that is no failure.
func TestTenantOfAnOldState(t *testing.T) {
	t.Parallel()
	r := newRig(t, new(newTenant("ns1", "x", "T", 1)))
	var stale v1alpha1.CacheTenantList
	if err := r.client.List(t.Context(), &stale); err != nil {
		t.Fatal(err)
	}
	r.index.snapshot = &cacheserver.Snapshot{Tenants: []cacheserver.Tenant{{ID: "T", IndexEntries: 4}}}
	r.run()
	old := tenantStatuses(nil, stale.Items, start)
	if err := r.publishTenants(t.Context(), stale.Items, old); err != nil {
		t.Errorf("the error is %v", err)
	}
	var tenant v1alpha1.CacheTenant
	if err := r.client.Get(t.Context(), key("ns1", "x"), &tenant); err != nil {
		t.Fatal(err)
	}
	if got := *tenant.Status.IndexEntries; got != 4 {
		t.Errorf("%d entries are published", got)
	}
	r.run()
	if len(r.patches) != 0 {
		t.Errorf("the same again writes %v", r.patches)
	}
}

// pages is a list of pods in pages.
type pages struct {
	client.Reader
	pages map[string]*metav1.PartialObjectMetadataList
}

func (p *pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if asked.Limit == 0 {
		return errors.New("the list is not paged")
	}
	page, ok := p.pages[asked.Continue]
	if !ok {
		return fmt.Errorf("there is no page %q", asked.Continue)
	}
	*list.(*metav1.PartialObjectMetadataList) = *page
	return nil
}

func TestPages(t *testing.T) {
	t.Parallel()
	page := func(next string, names ...string) *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: next}}
		for _, name := range names {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: newPod("ns1", name).ObjectMeta})
		}
		return list
	}
	r := newRig(t, backend("ns1", "cache"))
	live := &pages{pages: map[string]*metav1.PartialObjectMetadataList{
		"": page("second", "p0", "other"), "second": page("third", "p1"), "third": page("", "p2"),
	}}
	r.live = live
	r.holds(replica("ns1", "p0", 1), replica("ns1", "p1", 10), replica("ns1", "p2", 100), replica("ns1", "p3", 1000))
	r.run()
	if got := r.participation("ns1", "cache").PrefixCount; got != 111 {
		t.Errorf("got %d", got)
	}
	delete(live.pages, "third") // Half a list is none.
	r.holds(replica("ns1", "p0", 2))
	r.run()
	if got := r.participation("ns1", "cache").PrefixCount; got != 111 {
		t.Errorf("got %d", got)
	}
}

// counting is an index that counts how often it is read.
type counting struct{ reads atomic.Int32 }

func (c *counting) Snapshot(context.Context) (*cacheserver.Snapshot, error) {
	c.reads.Add(1)
	return nil, errRefused
}

func TestStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	index, clock := &counting{}, clocktesting.NewFakeClock(start)
	poller := newPoller(index, -1, r.client, r.live, clock, r.metrics)
	if poller.interval != DefaultInterval {
		t.Fatalf("the interval is %s", poller.interval)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- poller.Start(ctx) }()
	for want := int32(1); want <= 3; want++ {
		for !clock.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		if got := index.reads.Load(); got != want {
			t.Errorf("%d reads after %d ticks", got, want)
		}
		clock.Step(DefaultInterval - time.Nanosecond)
		if got := index.reads.Load(); got != want {
			t.Errorf("%d reads before the time of tick %d", got, want+1)
		}
		clock.Step(time.Nanosecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the error is %v", err)
	}
	if !poller.NeedLeaderElection() {
		t.Error("each process polls")
	}
}
