// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/cacheserver"
)

const (
	// minPause and pauseFactor keep the load on the cache server low, which walks through
	// its whole index for an answer: the pause between two calls is at least minPause, and
	// at least pauseFactor times as long as the first of them took.
	minPause    = time.Second
	pauseFactor = 10
	// patience is how long after its beginning a call is waited for at most.
	patience = time.Second
	// maxCause bounds what a warning quotes of an error, in runes.
	maxCause = 300
)

// source calls the cache server while somebody reads or watches, and never else. All share
// one call. It is safe for concurrent use.
type source struct {
	server  Server
	clock   clock.WithTicker
	publish func(*cacheserver.Snapshot)

	ctx   context.Context // ends with the source
	end   context.CancelFunc
	tasks sync.WaitGroup // what must end before close returns

	mu   sync.Mutex
	call *call     // that runs, nil if none does
	next time.Time // no call begins before
	good time.Time // when the last good answer came, zero if none has
	err  error     // how the last call has ended

	watchers int
	endLoop  context.CancelFunc // of the loop for the watchers
}

// call is a call of the cache server.
type call struct {
	began time.Time
	done  chan struct{} // closed when the call has ended and its answer is published
}

func newSource(server Server, clock clock.WithTicker, publish func(*cacheserver.Snapshot)) *source {
	s := &source{server: server, clock: clock, publish: publish}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// close ends everything and waits for it.
func (s *source) close() {
	s.mu.Lock()
	s.end() // with the lock held, so that nothing is started after it
	s.mu.Unlock()
	s.tasks.Wait()
}

// refresh makes what is published as fresh as it may be, if the cache server answers in
// the time that a reader has patience for.
func (s *source) refresh(ctx context.Context) {
	running, _ := s.begin()
	if running == nil {
		return
	}
	timer := s.clock.NewTimer(patience - s.clock.Since(running.began))
	defer timer.Stop()
	select {
	case <-running.done:
	case <-timer.C():
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
}

// begin returns the call that runs. It starts one if none does and the pause is over; during
// the pause it returns how much of it is left.
func (s *source) begin() (*call, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.call == nil && !now.Before(s.next) && s.ctx.Err() == nil {
		started := &call{began: now, done: make(chan struct{})}
		s.call = started
		s.tasks.Go(func() { s.fetch(started) })
	}
	return s.call, s.next.Sub(now)
}

func (s *source) fetch(c *call) {
	snapshot, err := s.server.Snapshot(s.ctx)
	if err == nil {
		s.publish(snapshot)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.logChange(err)
	s.call, s.err = nil, err
	s.next = now.Add(max(minPause, pauseFactor*now.Sub(c.began)))
	if err == nil {
		s.good = now
	}
	close(c.done)
}

// logChange tells the operator when calls begin to fail, and when they work again.
func (s *source) logChange(err error) {
	switch logger := klog.FromContext(s.ctx); {
	case s.ctx.Err() != nil:
	case err != nil && s.err == nil:
		logger.Error(err, "Cannot read the cache server's index")
	case err == nil && s.err != nil:
		logger.Info("Reads the cache server's index again")
	}
}

// complaint says why what is published is not fresh. It is empty if it is.
func (s *source) complaint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var cause string
	switch {
	case s.call != nil && now.Sub(s.call.began) >= patience:
		cause = fmt.Sprintf("the cache server has not answered for %s", now.Sub(s.call.began).Round(time.Millisecond))
	case s.err != nil:
		cause = printable(s.err.Error())
	default:
		return ""
	}
	if s.good.IsZero() {
		return "the cache index has not been read yet: " + cause
	}
	return fmt.Sprintf("the cache index is shown as it was %s ago: %s", now.Sub(s.good).Round(time.Second), cause)
}

// printable makes text fit for a header. A part of it may come from the server.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > maxCause {
		return string(runes[:maxCause]) + "..."
	}
	return text
}

// follow runs the task of a watcher, and keeps what is published fresh until it ends. It
// does nothing and returns false when the source has ended.
func (s *source) follow(task func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.watchers++
	if s.watchers == 1 {
		var ctx context.Context
		ctx, s.endLoop = context.WithCancel(s.ctx)
		s.tasks.Go(func() { s.loop(ctx) })
	}
	s.tasks.Go(func() {
		defer s.leave()
		task()
	})
	return true
}

func (s *source) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers--
	if s.watchers == 0 {
		s.endLoop()
	}
}

func (s *source) loop(ctx context.Context) {
	for ctx.Err() == nil {
		running, pause := s.begin()
		if running != nil {
			select {
			case <-running.done:
			case <-ctx.Done():
			}
			continue
		}
		timer := s.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
