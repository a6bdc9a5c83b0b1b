// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// restartPause keeps a process of ours that cannot run from being started all the time.
const restartPause = time.Second

// Options say what a cluster consists of.
type Options struct {
	Nodes int `json:"nodes"`
	// Port is where kube-apiserver listens; 0 takes a free one.
	Port int `json:"port"`
	// Overlay is the kustomization with the manifests of the project's own processes.
	Overlay string `json:"overlay"`
	// Prepare readies everything for the project's own processes, for a test that starts them itself.
	Prepare           bool     `json:"prepare"`
	APIServerProgram  string   `json:"apiServerProgram"`
	APIServerArgs     []string `json:"apiServerArgs"`
	ControllerProgram string   `json:"controllerProgram"`
	ControllerArgs    []string `json:"controllerArgs"`
}

func (o Options) usesManifests() bool {
	return o.Prepare || o.APIServerProgram != "" || o.ControllerProgram != ""
}

// wanted is how "up" tells a running supervisor what to become.
type wanted struct {
	Options     Options `json:"options"`
	Fingerprint string  `json:"fingerprint"`
}

// supervisor owns the processes of one cluster.
type supervisor struct {
	options  Options
	programs Programs
	dir      layout
	log      io.Writer
	ports    *ports
	ca       *authority
	config   *rest.Config
	client   kubernetes.Interface
	state    State

	running []*process // In the order of their start.
	fail    context.CancelCauseFunc
	crashed chan *process // Our own processes that ended by themselves.
}

// Run starts a cluster in dir, writes its state as one line of JSON to ready once it is up, and keeps it up until the
// context ends or a program of the control plane does. Nothing but the logs is left when it returns. A signal on reload
// makes it replace the project's own processes.
func Run(ctx context.Context, dir string, options Options, programs Programs, ready, log io.Writer, reload <-chan os.Signal) (err error) {
	if err := programs.Check(); err != nil {
		return err
	}
	lay := layout(dir)
	for _, folder := range []string{lay.logs(), lay.pki()} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("creating the cluster's folder: %w", err)
		}
	}
	lock, err := tryLock(lay.lock())
	if errors.Is(err, errLocked) {
		return fmt.Errorf("a cluster is already running in %s", dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()

	self := identify("cluster", os.Getpid())
	if err := writeHolder(lock, self); err != nil {
		return err
	}
	s := &supervisor{options: options, programs: programs, dir: lay, log: log, crashed: make(chan *process, 16)}
	s.state = State{Dir: dir, Programs: programs.Paths(), Options: options, Supervisor: self}
	if s.ports, err = newPorts(); err != nil {
		return err
	}
	defer s.ports.close()
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s.fail = fail
	defer func() { err = errors.Join(err, s.shutdown()) }()

	if err := s.bringUp(running); err != nil {
		return err
	}
	if err := json.NewEncoder(ready).Encode(s.state); err != nil {
		return fmt.Errorf("reporting readiness: %w", err)
	}
	s.keepUp(running, reload)
	if ctx.Err() != nil { // Asked to stop.
		return nil
	}
	return context.Cause(running)
}

func (s *supervisor) bringUp(ctx context.Context) error {
	var err error
	if s.state.Fingerprint, err = fingerprint(ctx, s.options, s.programs); err != nil {
		return err
	}
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	if err := s.prepareOurs(ctx); err != nil {
		return err
	}
	if err := s.startOurs(ctx); err != nil {
		return err
	}
	s.state.Ready = true
	return s.writeState()
}

// keepUp returns when the context ends.
func (s *supervisor) keepUp(ctx context.Context, reload <-chan os.Signal) {
	again := make(chan string, cap(s.crashed))
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-s.crashed:
			fmt.Fprintf(s.log, "%v\nstarting %s again\n", p.failure(), p.name)
			s.running = slices.DeleteFunc(s.running, func(other *process) bool { return other == p })
			time.AfterFunc(restartPause, func() { again <- p.name })
		case name := <-again:
			if s.has(name) { // A reload has started it.
				continue
			}
			if _, err := s.startOwn(name); err != nil {
				fmt.Fprintln(s.log, err)
				time.AfterFunc(restartPause, func() { again <- name })
			}
		case <-reload:
			s.state.Error = ""
			if err := s.replaceOurs(ctx); err != nil {
				fmt.Fprintln(s.log, err)
				s.state.Error = err.Error()
			}
			s.state.Ready = s.state.Error == ""
			if err := s.writeState(); err != nil {
				fmt.Fprintln(s.log, err)
			}
		}
	}
}

// replaceOurs stops the project's own processes and starts what wanted.json asks for. Kubernetes keeps running.
func (s *supervisor) replaceOurs(ctx context.Context) error {
	var want wanted
	if err := readJSON(s.dir.wanted(), &want); err != nil {
		return fmt.Errorf("reading what to run: %w", err)
	}
	s.options, s.state.Options, s.state.Fingerprint = want.Options, want.Options, want.Fingerprint
	s.state.Ready = false
	s.stop(func(p *process) bool { return !s.isKubernetes(p.name) })
	if err := s.writeState(); err != nil {
		return err
	}
	if err := s.prepareOurs(ctx); err != nil {
		return err
	}
	return s.startOurs(ctx)
}

// start starts a program and watches over it: without one of Kubernetes' own the cluster ends.
func (s *supervisor) start(name, path string, args []string) (*process, error) {
	p, err := startProcess(name, path, args, s.dir.log(name))
	if err != nil {
		return nil, err
	}
	s.running = append(s.running, p)
	go func() {
		<-p.done
		switch {
		case p.stopping.Load():
		case s.isKubernetes(name):
			s.fail(p.failure())
		default:
			s.crashed <- p
		}
	}()
	return p, s.writeState()
}

func (s *supervisor) isKubernetes(name string) bool {
	_, ok := programPackages[name]
	return ok
}

func (s *supervisor) has(name string) bool {
	return slices.ContainsFunc(s.running, func(p *process) bool { return p.name == name })
}

// stop ends processes in the reverse order of their start: nobody loses what it depends on.
func (s *supervisor) stop(which func(*process) bool) {
	for _, p := range slices.Backward(slices.Clone(s.running)) {
		if which(p) {
			p.stop()
			s.running = slices.DeleteFunc(s.running, func(other *process) bool { return other == p })
		}
	}
}

func (s *supervisor) shutdown() error {
	s.stop(func(*process) bool { return true })
	return s.dir.wipe()
}

// writeState is called whenever a process starts, so that "down" knows all of them should this process be killed.
func (s *supervisor) writeState() error {
	s.state.Processes = nil
	for _, p := range s.running {
		s.state.Processes = append(s.state.Processes, identify(p.name, p.cmd.Process.Pid))
	}
	return writeJSON(s.dir.state(), s.state)
}

// writeHolder puts the identity of the lock's holder into the lock file.
func writeHolder(lock *os.File, self ProcessID) error {
	data, err := json.Marshal(self)
	if err != nil {
		return fmt.Errorf("encoding the lock's holder: %w", err)
	}
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("emptying the lock: %w", err)
	}
	if _, err := lock.WriteAt(data, 0); err != nil {
		return fmt.Errorf("writing the lock's holder: %w", err)
	}
	return nil
}
