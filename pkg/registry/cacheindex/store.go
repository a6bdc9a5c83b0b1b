// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

const (
	// Name is the name of the only object.
	Name = "cluster-default"
	// uid is the same in every server and at all times: it is always the same object.
	uid = "7c0f3c1e-5d0a-4c59-9a8e-2f6b1f0c7d11"
	// maxAhead is how far ahead of the clock a version may be that a client names. Replicas
	// of the server make versions from clocks of their own.
	maxAhead = time.Minute
	// maxStep bounds the random part of a version, in nanoseconds.
	maxStep = 1000
)

// created is a fixed time for the same reason as uid.
var created = metav1.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// A version is about the moment of a change, in nanoseconds since 1970. Every replica of the
// server makes its own, and so does a server that was restarted: versions of different
// servers are not the same, and those of one server only grow.
type version uint64

// parseVersion reads what a client names as resource version. None is 0, as is any.
func parseVersion(text string) (version, error) {
	if text == "" {
		return 0, nil
	}
	parsed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resourceVersion %q: it must be a number", text))
	}
	return version(parsed), nil
}

func (v version) String() string { return strconv.FormatUint(uint64(v), 10) }

// state is the object as it was from one moment on.
type state struct {
	// news is the object. It is never changed.
	news    *sharedObject
	version version
	// change counts how often the status has changed. A state with a new version alone is
	// nothing that a watcher has to be told.
	change uint64
}

// object returns the object for one reader. What it points to is shared.
func (s *state) object() *inferencecache.CacheIndex {
	object := *s.news.object
	return &object
}

// store keeps the one object. It is safe for concurrent use.
type store struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	state   *state
	changed chan struct{} // closed at the next change
}

// newStore returns a store whose object has an empty status.
func newStore(clock clock.PassiveClock) *store {
	s := &store{clock: clock, changed: make(chan struct{})}
	s.set(inferencecache.CacheIndexStatus{}, s.next(0), 0)
	return s
}

// publish shows a status, unless it tells nothing new. It is called by one at a time, and so
// compares without the lock, which a large index would hold for milliseconds.
func (s *store) publish(status inferencecache.CacheIndexStatus) {
	if present, _ := s.present(); sameButForTimes(status, present.news.object.Status) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status.LastUpdated = metav1.NewTime(s.clock.Now())
	s.set(status, s.next(s.state.version), s.state.change+1)
	close(s.changed)
	s.changed = make(chan struct{})
}

// present returns the present state, and a channel that is closed when it changes.
func (s *store) present() (*state, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// notOlderThan returns the present state for somebody who has seen a version already,
// perhaps of another server. The state gets a new version if its own is below.
func (s *store) notOlderThan(seen version) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.version < seen {
		s.set(s.state.news.object.Status, s.next(seen), s.state.change)
	}
	return s.state
}

// exactly returns the state that has a version, as long as it is the present one.
func (s *store) exactly(wanted version) (*state, error) {
	present, _ := s.present()
	if present.version != wanted {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is not the present one (%s), and no other is kept", wanted, present.version))
	}
	return present, nil
}

// tooFar says whether a version is further ahead than clocks may be apart. It cannot be of
// any of our servers, and a version above it would be above theirs for long.
func (s *store) tooFar(seen version) bool {
	present, _ := s.present()
	return seen > max(present.version, s.now()+version(maxAhead))
}

// tooLarge is the error of a read that names a version which is too far ahead.
func (s *store) tooLarge(seen version) error {
	present, _ := s.present()
	return storage.NewTooLargeResourceVersionError(uint64(seen), uint64(present.version), 1)
}

func (s *store) now() version { return version(s.clock.Now().UnixNano()) }

// next returns a new version above another. Two servers may make one at the same moment, or
// above the same one while their clocks are behind: chance keeps them apart.
func (s *store) next(above version) version {
	return max(s.now(), above+1) + rand.N[version](maxStep)
}

// set replaces the state. The lock is held, or nobody has the store yet.
func (s *store) set(status inferencecache.CacheIndexStatus, v version, change uint64) {
	s.state = &state{version: v, change: change, news: share(&inferencecache.CacheIndex{
		ObjectMeta: metav1.ObjectMeta{Name: Name, UID: uid, CreationTimestamp: created, ResourceVersion: v.String()},
		Status:     status,
	})}
}
