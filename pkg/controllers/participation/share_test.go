// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

func TestT2HitRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		hits, queries int64
		want          string
	}{
		{1, 3, "0.33333334"},
		{2, 3, "0.6666667"},
		{750, 1000, "0.75"},
		{0, 5, "0"},
		{1, 1_000_000_000, "0.000000001"},
		{999_999_999, 1_000_000_000, "1"},
		{3, 2, "1"},
		{-3, 2, "0"},
		{1, 1 << 62, "0.00000000000000000021684043"},
	} {
		s := &share{}
		s.add(&cacheserver.Replica{T2HitTokens: tt.hits, T2QueryTokens: tt.queries})
		if got := s.participation(nil).T2HitRate; got == nil || *got != tt.want {
			t.Errorf("%d of %d: got %v, want %s", tt.hits, tt.queries, got, tt.want)
		}
	}
	for _, queries := range []int64{0, -1} {
		s := &share{}
		s.add(&cacheserver.Replica{T2HitTokens: 1, T2QueryTokens: queries})
		if got := s.participation(nil).T2HitRate; got != nil {
			t.Errorf("a tier that was asked for %d tokens has a rate: %s", queries, *got)
		}
	}
}

func TestParticipation(t *testing.T) {
	t.Parallel()
	stored := &v1alpha1.IndexParticipation{
		PrefixCount: 5, LastEventAt: new(metav1.NewTime(start)), HitRate: new("0.5"), T2HitRate: new("0.25"),
	}
	for name, tt := range map[string]struct {
		stored *v1alpha1.IndexParticipation
		share  *share
		want   *v1alpha1.IndexParticipation
	}{
		"never seen":             {nil, nil, nil},
		"seen, then drained":     {stored, nil, &v1alpha1.IndexParticipation{}},
		"drained, still drained": {&v1alpha1.IndexParticipation{}, nil, &v1alpha1.IndexParticipation{}},
		"seen without anything":  {nil, &share{}, &v1alpha1.IndexParticipation{}},
		"no event any more":      {stored, &share{prefixCount: 7}, &v1alpha1.IndexParticipation{PrefixCount: 7}},
		"an event": {nil, &share{prefixCount: 1, lastEventAt: start.Truncate(time.Second)}, &v1alpha1.IndexParticipation{
			PrefixCount: 1, LastEventAt: new(metav1.NewTime(start.Truncate(time.Second))),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.share.participation(tt.stored)); diff != "" {
				t.Errorf("participation (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAddTimes: times are compared as instants, and are stored in whole seconds.
func TestAddTimes(t *testing.T) {
	t.Parallel()
	early := time.Date(2027, 3, 2, 14, 4, 59, 999_999_000, time.FixedZone("", 2*60*60))
	late := time.Date(2027, 3, 2, 12, 5, 0, 500_000_000, time.UTC)
	for _, times := range [][]time.Time{{early, late}, {late, early}, {{}, late, {}, early}} {
		s := &share{}
		for _, at := range times {
			s.add(&cacheserver.Replica{LastEventAt: at})
		}
		if want := late.Truncate(time.Second); !s.lastEventAt.Equal(want) {
			t.Errorf("of %v: got %s, want %s", times, s.lastEventAt, want)
		}
	}
}

// TestAddNonsense: our API refuses counts below zero.
func TestAddNonsense(t *testing.T) {
	t.Parallel()
	s := &share{}
	s.add(&cacheserver.Replica{PrefixCount: -5})
	s.add(&cacheserver.Replica{PrefixCount: 2})
	if s.prefixCount != 2 {
		t.Errorf("the count is %d", s.prefixCount)
	}
}
