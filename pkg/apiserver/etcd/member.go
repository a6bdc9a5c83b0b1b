// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	// etcdFolder is etcd's folder within the data directory, and newFolder where its first start takes place.
	etcdFolder = "etcd"
	newFolder  = "etcd.new"

	// readyTimeout is how long etcd may take to serve after it has read its files. It takes a second; one that takes a
	// minute never will, and an error is more than silence.
	readyTimeout = time.Minute
)

// member is a running etcd.
type member struct {
	etcd  *embed.Etcd
	quiet atomic.Bool // etcd is being closed
}

// openMember starts etcd on its folder. The folder appears complete or not at all: an etcd that is stopped between the
// making of its log and the first entry, a few milliseconds in its life, never becomes ready again. So the first start
// takes place beside it, in a folder that holds nothing of value until it is renamed.
func openMember(ctx context.Context, o Options, sockets socketDir) (*member, error) {
	folder := filepath.Join(o.DataDir, etcdFolder)
	_ = os.Remove(folder) // fails unless it is empty, which is as good as none
	_, err := os.Stat(folder)
	if errors.Is(err, os.ErrNotExist) {
		err = makeMember(ctx, o, sockets, folder)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the embedded etcd: %w", err)
	}
	return startMember(ctx, folder, o.QuotaBytes, sockets)
}

// makeMember gives folder the files of a new etcd.
func makeMember(ctx context.Context, o Options, sockets socketDir, folder string) error {
	fresh := filepath.Join(o.DataDir, newFolder)
	if err := os.RemoveAll(fresh); err != nil { // what an interrupted first start left; no client ever saw it
		return err
	}
	m, err := startMember(ctx, fresh, o.QuotaBytes, sockets)
	if err != nil {
		return err
	}
	m.close()
	if err := os.Rename(fresh, folder); err != nil {
		return err
	}
	return syncDir(o.DataDir)
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// startMember starts etcd and waits until it serves. StartEtcd itself knows no context; checkUnused rules out the one
// thing it would wait for without end.
func startMember(ctx context.Context, folder string, quota int64, sockets socketDir) (*member, error) {
	if err := checkUnused(folder); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("starting embedded etcd: %w", err)
	}
	m := &member{}
	e, err := embed.StartEtcd(newConfig(folder, quota, sockets, newZapLogger(klog.FromContext(ctx), &m.quiet)))
	if err != nil {
		return nil, fmt.Errorf("starting embedded etcd in %s: %w", folder, err)
	}
	m.etcd = e
	if err := m.waitReady(ctx); err != nil {
		m.close()
		return nil, fmt.Errorf("starting embedded etcd in %s: %w", folder, err)
	}
	return m, nil
}

func (m *member) waitReady(ctx context.Context) error {
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case <-m.etcd.Server.StopNotify():
		return errStopped
	case err := <-m.etcd.Err():
		return errors.Join(errStopped, err)
	case <-timeout.C:
		return fmt.Errorf("not ready after %s", readyTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close stops etcd. One that is not ready has to be stopped before it is closed, because Close waits for listeners that
// wait for either; one that is ready drains its connections first.
func (m *member) close() {
	m.quiet.Store(true)
	select {
	case <-m.etcd.Server.ReadyNotify():
	default:
		m.etcd.Server.Stop()
	}
	m.etcd.Close()
}

// checkUnused refuses a database that some other program has open, a restore or a stand-alone etcd for instance. They
// do not know our lock, and etcd would wait for them without end.
func checkUnused(folder string) error {
	path := filepath.Join(folder, "member", "snap", "db")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the database of the embedded etcd: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("database %s is in use by another program, such as etcd or etcdutl: stop it first", path)
	}
	if err != nil {
		return fmt.Errorf("locking database %s: %w", path, err)
	}
	return nil // closing the file unlocks it
}
