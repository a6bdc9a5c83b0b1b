// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// TestIdentity asserts that the object is the same one in every server.
func TestIdentity(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		one, _ := get(t, rest)
		other := NewREST(server, "elsewhere", skewed{offset: time.Hour})
		defer other.Destroy()
		two, _ := get(t, other)
		if one.Name != "cluster-default" || one.UID == "" || one.UID != two.UID ||
			one.CreationTimestamp.IsZero() || !one.CreationTimestamp.Equal(&two.CreationTimestamp) {
			t.Errorf("got %+v and %+v", one.ObjectMeta, two.ObjectMeta)
		}
		if one.Status.ObservedServer != serverURL || two.Status.ObservedServer != "elsewhere" {
			t.Errorf("observed %q and %q", one.Status.ObservedServer, two.Status.ObservedServer)
		}
		if one.ResourceVersion == two.ResourceVersion {
			t.Error("the versions of two servers are the same")
		}
	})
}

func TestOtherNames(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		if _, err := rest.Get(t.Context(), "other", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want not found", err)
		}
		if len(server.called()) != 0 {
			t.Error("the cache server is asked for what cannot be there")
		}
	})
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, _ *script) {
		for _, tt := range []struct {
			label, field string
			want         int
		}{
			{"", "", 1},
			{"", "metadata.name=cluster-default", 1},
			{"", "metadata.name!=cluster-default", 0},
			{"", "metadata.name=other", 0},
			{"", "metadata.namespace=", 1},
			{"", "metadata.namespace=other", 0},
			{"a=b", "", 0},
			{"a", "", 0},
			{"!a", "", 1},
			{"a!=b", "metadata.name=cluster-default", 1},
			{"a=b", "metadata.name=cluster-default", 0},
		} {
			label, err := labels.Parse(tt.label)
			if err != nil {
				t.Fatal(err)
			}
			options := &metainternalversion.ListOptions{LabelSelector: label, FieldSelector: fields.ParseSelectorOrDie(tt.field), Limit: 1}
			got, err := rest.List(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			if list := got.(*inferencecache.CacheIndexList); len(list.Items) != tt.want || list.ResourceVersion == "" {
				t.Errorf("%q %q: got %d objects at version %q, want %d", tt.label, tt.field, len(list.Items), list.ResourceVersion, tt.want)
			}
		}
	})
}

// TestVersionsOfReads asserts what is answered to readers who name a version.
func TestVersionsOfReads(t *testing.T) {
	t.Parallel()
	isGone := func(err error) bool { return apierrors.IsResourceExpired(err) }
	none := func(err error) bool { return err == nil }
	for _, tt := range []struct {
		name  string
		asked func(present version) string
		match metav1.ResourceVersionMatch
		is    func(error) bool
		moves bool // the answer has a new version
	}{
		{"none", func(version) string { return "" }, "", none, false},
		{"any", func(version) string { return "0" }, "", none, false},
		{"any, not older", func(version) string { return "0" }, metav1.ResourceVersionMatchNotOlderThan, none, false},
		{"older", func(p version) string { return (p - 1).String() }, "", none, false},
		{"much older", func(version) string { return "1" }, metav1.ResourceVersionMatchNotOlderThan, none, false},
		{"present", func(p version) string { return p.String() }, "", none, false},
		{"newer", func(p version) string { return (p + 1).String() }, "", none, true},
		{"newer by almost a minute", func(p version) string { return (p + version(maxAhead) - 2*maxStep).String() }, "", none, true},
		{"newer by more", func(p version) string { return (p + version(maxAhead) + 1).String() }, "", storage.IsTooLargeResourceVersion, false},
		{"largest", func(version) string { return "18446744073709551615" }, "", storage.IsTooLargeResourceVersion, false},
		{"exactly the present", func(p version) string { return p.String() }, metav1.ResourceVersionMatchExact, none, false},
		{"exactly an older", func(p version) string { return (p - 1).String() }, metav1.ResourceVersionMatchExact, isGone, false},
		{"exactly a newer", func(p version) string { return (p + 1).String() }, metav1.ResourceVersionMatchExact, isGone, false},
		{"no number", func(version) string { return "abc" }, "", apierrors.IsBadRequest, false},
		{"negative", func(version) string { return "-1" }, "", apierrors.IsBadRequest, false},
		{"too long", func(version) string { return "18446744073709551616" }, "", apierrors.IsBadRequest, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, rest *REST, _ *script) {
				get(t, rest)
				present, _ := rest.store.present()
				asked := tt.asked(present.version)
				object, err := rest.List(t.Context(), &metainternalversion.ListOptions{ResourceVersion: asked, ResourceVersionMatch: tt.match})
				if !tt.is(err) {
					t.Fatalf("list: got %v", err)
				}
				if err == nil {
					expectVersion(t, object.(*inferencecache.CacheIndexList).ResourceVersion, asked, present.version, tt.moves)
				}
				if tt.match == metav1.ResourceVersionMatchExact {
					return
				}
				object, err = rest.Get(t.Context(), Name, &metav1.GetOptions{ResourceVersion: asked})
				if !tt.is(err) {
					t.Fatalf("get: got %v", err)
				}
				if err == nil {
					expectVersion(t, object.(*inferencecache.CacheIndex).ResourceVersion, asked, present.version, tt.moves)
				}
			})
		})
	}
}

func expectVersion(t *testing.T, got, asked string, before version, moves bool) {
	t.Helper()
	v, err := parseVersion(got)
	if err != nil {
		t.Fatal(err)
	}
	if floor, _ := parseVersion(asked); v < floor {
		t.Errorf("got version %s, which is below the %s that was asked for", v, asked)
	}
	if (v != before) != moves {
		t.Errorf("the version was %s and is %s", before, v)
	}
}

// TestExactDoesNotRefresh asserts that what was listed can be listed again.
func TestExactDoesNotRefresh(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		version := list(t, rest).ResourceVersion
		server.say(1, nil)
		time.Sleep(time.Hour)
		options := &metainternalversion.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		if _, err := rest.List(t.Context(), options); err != nil {
			t.Error(err)
		}
	})
}

// TestVersionsGrow asserts that versions only grow, whatever the clock does and whatever
// versions clients come with, and that these cannot drive them away from the clock.
func TestVersionsGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := &settable{now: time.Now()}
		store := newStore(clock)
		last, _ := store.present()
		grow := func(what string, state *state) {
			t.Helper()
			if state.version <= last.version {
				t.Fatalf("%s: version %s after %s", what, state.version, last.version)
			}
			last = state
		}
		publish := func(total int64) *state {
			store.publish(inferencecache.CacheIndexStatus{Prefixes: &inferencecache.IndexPrefixes{Summary: &inferencecache.IndexPrefixSummary{Total: total}}})
			state, _ := store.present()
			return state
		}
		grow("first", publish(1))
		clock.set(clock.Now().Add(-time.Hour))
		grow("clock goes back", publish(2))
		grow("asked for more", store.notOlderThan(last.version+1))
		grow("changed after that", publish(3))
		clock.set(clock.Now().Add(2 * time.Hour))
		grow("clock goes on", publish(4))
		if ahead := int64(last.version) - clock.Now().UnixNano(); ahead < 0 || ahead > maxStep {
			t.Errorf("the version is %d ns ahead of the clock", ahead)
		}

		// Somebody goes on asking for the most that is allowed.
		for range 1000 {
			for step := version(2 * maxAhead); step > 0; step /= 2 {
				if asked := last.version + step; !store.tooFar(asked) {
					last = store.notOlderThan(asked)
				}
			}
		}
		if ahead := time.Duration(int64(last.version) - clock.Now().UnixNano()); ahead > maxAhead+maxStep {
			t.Errorf("the version was driven %s ahead of the clock", ahead)
		}
	})
}

// TestSameStatusStays asserts that a status which differs in times alone is not published.
func TestSameStatusStays(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		before, _ := get(t, rest)
		time.Sleep(time.Hour)
		after, _ := get(t, rest)
		if len(server.called()) != 2 {
			t.Fatalf("the cache server was called %d times", len(server.called()))
		}
		if before.ResourceVersion != after.ResourceVersion || !before.Status.LastUpdated.Equal(&after.Status.LastUpdated) {
			t.Errorf("was %s of %s, is %s of %s", before.ResourceVersion, before.Status.LastUpdated, after.ResourceVersion, after.Status.LastUpdated)
		}
		server.say(1, nil)
		time.Sleep(time.Hour)
		changed, _ := get(t, rest)
		if changed.ResourceVersion == after.ResourceVersion || !changed.Status.LastUpdated.Time.Equal(time.Now()) {
			t.Errorf("after a change: %s of %s", changed.ResourceVersion, changed.Status.LastUpdated)
		}
	})
}

// TestReadersOwnWhatTheyGet asserts that a reader who changes the metadata of the answer
// changes nobody else's.
func TestReadersOwnWhatTheyGet(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, _ *script) {
		one, _ := get(t, rest)
		one.Labels, one.Name = map[string]string{"a": "b"}, "changed"
		items := list(t, rest).Items
		if items[0].Labels != nil || items[0].Name != Name {
			t.Errorf("got %+v", items[0].ObjectMeta)
		}
	})
}

// TestTable asserts the columns that kubectl prints.
func TestTable(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, rest *REST, server *script) {
		server.say(412, nil)
		print := func() (string, []any) {
			table, err := rest.ConvertToTable(t.Context(), list(t, rest), nil)
			if err != nil {
				t.Fatal(err)
			}
			var columns []string
			for _, column := range table.ColumnDefinitions {
				columns = append(columns, column.Name+" "+column.Type)
			}
			return strings.Join(columns, ", "), table.Rows[0].Cells
		}
		columns, cells := print()
		if columns != "Name string, Prefixes integer, Changed date, Age date" {
			t.Errorf("columns are %s", columns)
		}
		if cells[0] != Name || cells[1] != int64(412) || cells[2] != "0s" {
			t.Errorf("cells are %v", cells)
		}
		if cells := presentCells(t, NewREST(server, "", skewed{})); cells[1] != nil || cells[2] != nil {
			t.Errorf("cells of an index that was not read are %v", cells)
		}
	})
}

func presentCells(t *testing.T, rest *REST) []any {
	t.Helper()
	state, _ := rest.store.present()
	table, err := rest.ConvertToTable(t.Context(), state.object(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return table.Rows[0].Cells
}

// settable is a clock that tests set.
type settable struct {
	skewed
	mu  sync.Mutex
	now time.Time
}

func (c *settable) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *settable) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}
