// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd runs the store of one API server inside its process, so that a small installation needs no etcd cluster.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// DefaultQuotaBytes is the size of the database at which etcd takes no more writes. It is etcd's own default, set
	// explicitly so that the limit an operator reads in our flags is the one that holds.
	DefaultQuotaBytes int64 = 2 << 30

	// spaceInterval is how often a full database is looked at again. Objects that an operator deletes make room, and
	// writes should come back without a restart.
	spaceInterval = time.Minute
)

// errStopped says that etcd ended although nobody asked it to.
var errStopped = errors.New("embedded etcd stopped by itself")

// Options says where the embedded etcd keeps its data and how large it may grow.
type Options struct {
	// DataDir holds the lock file and, in a folder of its own, etcd's files; that folder is what a backup is restored
	// into, because the root of a volume is never empty. It is created with mode 0700. One process at a time.
	DataDir string
	// QuotaBytes is the size of the database at which writes are refused; 0 means DefaultQuotaBytes.
	QuotaBytes int64
	// SocketParent is where the private folder of the socket is made, /tmp and the like if empty. The path of a Unix
	// socket has little more than 100 bytes, so the data directory cannot hold it.
	SocketParent string
}

// Server is a running etcd of one member. Nothing but this process and its user can reach it.
type Server struct {
	member  *member
	lock    *dirLock
	sockets socketDir
	space   *spaceKeeper

	stop      context.CancelFunc // ends the space keeper
	tasks     sync.WaitGroup
	closeOnce sync.Once
	closing   chan struct{}
	done      chan struct{}
	err       error // written before done is closed
}

// Start locks the data directory, starts etcd on it and returns when it serves. ctx bounds the start alone: the server
// runs until Close, because it has to outlive the API server that uses it.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	if o, err = o.complete(); err != nil {
		return nil, err
	}
	lock, err := lockDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	s := &Server{lock: lock, closing: make(chan struct{}), done: make(chan struct{})}
	defer func() {
		if err != nil {
			s.release()
		}
	}()

	lock.stale.remove()
	if s.sockets, err = newSocketDir(o.SocketParent); err != nil {
		return nil, err
	}
	if err = lock.record(s.sockets); err != nil {
		return nil, err
	}
	if s.member, err = openMember(ctx, o, s.sockets); err != nil {
		return nil, err
	}
	s.space = newSpaceKeeper(s.member.etcd.Server, o.QuotaBytes)
	s.space.check(ctx) // so that no API server starts on a store that refuses writes it could take
	s.background(klog.NewContext(context.Background(), klog.FromContext(ctx)))
	return s, nil
}

// complete fills in defaults and refuses what cannot work.
func (o Options) complete() (Options, error) {
	if o.DataDir == "" {
		return o, errors.New("embedded etcd needs a data directory")
	}
	if o.QuotaBytes < 0 {
		return o, fmt.Errorf("quota of %d bytes for the embedded etcd: it must not be negative", o.QuotaBytes)
	}
	if o.QuotaBytes == 0 {
		o.QuotaBytes = DefaultQuotaBytes
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("data directory %s: %w", o.DataDir, err)
	}
	o.DataDir = dir
	return o, nil
}

// background starts what runs beside etcd: the keeper of free space, and the watch for an end that nobody asked for.
func (s *Server) background(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.tasks.Go(func() { s.space.run(ctx, spaceInterval) })
	s.tasks.Go(s.watchEnd)
}

// watchEnd closes done when etcd has ended.
func (s *Server) watchEnd() {
	defer close(s.done)
	var err error
	select {
	case <-s.closing:
		return
	case err = <-s.member.etcd.Err():
	case <-s.member.etcd.Server.StopNotify():
	}
	select {
	case <-s.closing: // Close was called in the meantime: no accident.
	default:
		s.err = errors.Join(errStopped, err)
	}
}

// Endpoints is what an etcd client in this process, or one of the same user, connects to.
func (s *Server) Endpoints() []string {
	return []string{"unix://" + s.sockets.client()}
}

// Done is closed when etcd no longer runs. If nobody called Close, Err tells the reason, and the process should end:
// whoever restarts it gets a working store.
func (s *Server) Done() <-chan struct{} {
	return s.done
}

// Err is nil while etcd runs and after a Close, else the reason why etcd ended.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close stops etcd, then gives up the data directory. Call it when the API server has stopped and its clients are
// closed: etcd waits several seconds for open connections. More calls wait for the first and do nothing.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.stop()
		s.tasks.Wait()
		s.member.close()
		s.release()
	})
}

// release undoes what Start did before etcd. The lock is last: who gets it must find nothing of ours.
func (s *Server) release() {
	s.sockets.remove()
	s.lock.release()
}
