// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package participation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// share is what the replicas of one backend add up to.
type share struct {
	prefixCount int64
	// lastEventAt is in whole seconds, as times are stored; zero when there was no event.
	lastEventAt       time.Time
	t2Hits, t2Queries int64
}

func (s *share) add(replica *cacheserver.Replica) {
	s.prefixCount += max(replica.PrefixCount, 0)
	if at := replica.LastEventAt.Truncate(time.Second); at.After(s.lastEventAt) {
		s.lastEventAt = at
	}
	s.t2Hits += max(replica.T2HitTokens, 0)
	s.t2Queries += max(replica.T2QueryTokens, 0)
}

// t2HitRate is from 0 to 1. It returns false when the second tier was never asked, which is
// not the same as a tier that was asked and never served.
func (s *share) t2HitRate() (float64, bool) {
	if s == nil || s.t2Queries <= 0 {
		return 0, false
	}
	return min(float64(s.t2Hits)/float64(s.t2Queries), 1), true
}

// participation is what to publish of a share, which is nil for a backend without replicas.
// Nothing is published before replicas were seen for the first time. After that their lack
// is a fact too: what was published must not outlive the engines.
func (s *share) participation(stored *v1alpha1.IndexParticipation) *v1alpha1.IndexParticipation {
	if s == nil {
		if stored == nil {
			return nil
		}
		return &v1alpha1.IndexParticipation{}
	}
	next := &v1alpha1.IndexParticipation{PrefixCount: s.prefixCount}
	if !s.lastEventAt.IsZero() {
		next.LastEventAt = new(metav1.NewTime(s.lastEventAt))
	}
	if rate, asked := s.t2HitRate(); asked {
		next.T2HitRate = new(cacheserver.FormatRate(float32(rate)))
	}
	return next
}
