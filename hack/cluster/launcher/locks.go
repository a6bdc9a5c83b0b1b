// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// tryLock takes an advisory lock on a file. Closing the file, or the end of the process however it comes, gives it back.
func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return file, nil
}

// waitForLock is tryLock until it succeeds.
func waitForLock(ctx context.Context, path string) (*os.File, error) {
	var lock *os.File
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		var err error
		lock, err = tryLock(path)
		if errors.Is(err, errLocked) {
			return false, nil
		}
		return err == nil, err
	})
	return lock, err
}

// portRange lies below the range that the kernel takes ports of outgoing connections from, so that no connection can
// occupy a port between its choice and the moment the program listens on it.
const firstPort, lastPort = 20000, 32000

// ports hands out loopback ports. A lock per port keeps clusters that start side by side apart.
type ports struct {
	dir   string
	locks []*os.File
}

func newPorts() (*ports, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of port locks: %w", err)
	}
	return &ports{dir: dir}, nil
}

// free returns a port that nobody listens on and no other cluster has been given.
func (p *ports) free() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := tryLock(filepath.Join(p.dir, strconv.Itoa(port)))
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if checkPort(port) != nil {
			lock.Close()
			continue
		}
		p.locks = append(p.locks, lock)
		return port, nil
	}
	return 0, fmt.Errorf("no free port found between %d and %d", firstPort, lastPort)
}

// checkPort fails when somebody listens on a port.
func checkPort(port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is taken: %w", port, err)
	}
	return listener.Close()
}

// close gives all ports back.
func (p *ports) close() {
	for _, lock := range p.locks {
		lock.Close()
	}
}
