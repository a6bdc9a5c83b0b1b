// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	lockName = "lock"
	// maxLockFile bounds what is read of a lock file; a few lines are written.
	maxLockFile = 4096
)

// dirLock keeps a second server away from a data directory. etcd's own lock would not do: it waits instead of failing,
// and by then the second server has unlinked the socket of the first. The kernel drops the lock when its holder dies, so
// the file may stay; only its lock counts.
type dirLock struct {
	file *os.File
	// stale is the socket folder of an earlier holder that had no time to remove it.
	stale socketDir
}

// lockHolder is what a lock file tells about the process that has it: pid, host and socket folder, a line each.
type lockHolder struct {
	pid     string
	host    string
	sockets socketDir
}

// lockDir makes the data directory if there is none, and locks it without waiting.
func lockDir(dir string) (*dirLock, error) {
	if err := makeDataDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(dir, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	holder := readHolder(f)
	if err == nil {
		return &dirLock{file: f, stale: holder.sockets}, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("data directory %s is in use by %s: stop that server or give this one its own --data-dir",
			dir, holder)
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		if errors.Is(err, unix.ENOTDIR) {
			return fmt.Errorf("data directory %s is not a directory: %w", dir, err)
		}
		return fmt.Errorf("creating data directory: %w", err)
	}
	return nil
}

// unusable tells whose permission is missing: in a container the user is seldom the one the operator thinks of.
func unusable(dir string, err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("data directory %s is not writable for user %d: %w", dir, os.Geteuid(), err)
	}
	return fmt.Errorf("data directory %s: %w", dir, err)
}

// record names this process in the lock file.
func (l *dirLock) record(sockets socketDir) error {
	host, _ := os.Hostname() // only to be more helpful
	text := fmt.Sprintf("%d\n%s\n%s\n", os.Getpid(), host, sockets)
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	if _, err := l.file.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	return nil
}

// release empties the file, so that it names no process that has gone, and gives the lock back.
func (l *dirLock) release() {
	_ = l.file.Truncate(0)
	_ = l.file.Close()
}

// readHolder reads what it can: the holder may be about to write its lines.
func readHolder(f io.ReaderAt) lockHolder {
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, maxLockFile))
	lines := strings.Split(string(text), "\n")
	var h lockHolder
	if len(lines) > 3 {
		h = lockHolder{pid: lines[0], host: lines[1], sockets: socketDir(lines[2])}
	}
	if _, err := strconv.Atoi(h.pid); err != nil {
		return lockHolder{}
	}
	return h
}

// String names the holder in a message. A pid means little beyond its host: in containers it is often 1.
func (h lockHolder) String() string {
	if h.pid == "" {
		return "another process"
	}
	if host, err := os.Hostname(); err == nil && h.host != host {
		return fmt.Sprintf("process %s on host %s", h.pid, h.host)
	}
	return "process " + h.pid
}
