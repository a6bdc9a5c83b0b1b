// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// stopGrace is how long a program may take to stop by itself.
	stopGrace = 5 * time.Second
	// readyTimeout is how long a program may take to become ready, on a machine that is busy with other things too.
	readyTimeout = 2 * time.Minute
	// tailLines is how much of a program's log an error quotes.
	tailLines = 30
)

// process is a running program. It has been reaped once done is closed.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
	err       error // How it ended; set before done is closed.
	stopping  atomic.Bool
}

// spawner runs functions on one OS thread that lives as long as this process. The kernel sends a child its parent-death
// signal when the thread that started it ends, and the Go runtime ends threads at will, but not this one.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// startProcess starts a program that dies with this process and appends what it says to logFile.
func startProcess(name, path string, args []string, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening log of %s: %w", name, err)
	}
	defer log.Close()

	p := &process{name: name, log: logFile, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Dir = filepath.Dir(logFile)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A process group of its own: Ctrl-C in the terminal must reach the launcher only, which knows the order to stop in.
	p.cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})

	started := make(chan error)
	spawner() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop ends the process and returns when it is gone.
func (p *process) stop() {
	p.stopping.Store(true)
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // It fails only when the process is gone already.
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// failure tells how the process ended and what it said last.
func (p *process) failure() error {
	how := "with exit status 0"
	if p.err != nil {
		how = "with " + p.err.Error()
	}
	return fmt.Errorf("%s ended %s\n%s", p.name, how, tail(p.log))
}

// waitReady polls until check passes. It fails as soon as the process ends.
func (p *process) waitReady(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, p.failure()
		default:
		}
		if err := check(ctx); err != nil {
			last = err
			return false, nil
		}
		return true, nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s is not ready after %s: %w\n%s", p.name, readyTimeout, last, tail(p.log))
	}
	return err
}

// tail returns the last lines of a log, headed by its path.
func tail(path string) string {
	const window = 8 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > window {
		_, _ = file.Seek(-window, io.SeekEnd)
	}
	data, _ := io.ReadAll(file)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "the end of " + path + ":\n  " + strings.Join(lines, "\n  ")
}

// ProcessID identifies a process for good: by its start time a pid that the kernel has given away again is told apart.
type ProcessID struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

func identify(name string, pid int) ProcessID {
	return ProcessID{Name: name, PID: pid, Start: startTime(pid)}
}

// alive tells whether the very process still runs. A zombie does not.
func (id ProcessID) alive() bool {
	return id.PID > 0 && id.Start != "" && startTime(id.PID) == id.Start
}

// end stops a process that this process did not start: politely, then for good after the grace.
func (id ProcessID) end(ctx context.Context, grace time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !id.alive() {
			return nil
		}
		_ = syscall.Kill(id.PID, signal)
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, grace, true, func(context.Context) (bool, error) {
			return !id.alive(), nil
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%s (pid %d) does not end", id.Name, id.PID)
}
