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
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// supervisorGrace is how long a supervisor may take to stop all its programs.
const supervisorGrace = time.Minute

// Up makes sure that a cluster runs in dir as the options say, in the background. runCommand is the command line of a
// supervisor for it.
func Up(ctx context.Context, dir string, options Options, programs Programs, runCommand []string, out io.Writer) error {
	if err := programs.Check(); err != nil {
		return err
	}
	want, err := fingerprint(ctx, options, programs)
	if err != nil {
		return err
	}
	lay := layout(dir)
	if err := os.MkdirAll(lay.logs(), 0o700); err != nil {
		return fmt.Errorf("creating the cluster's folder: %w", err)
	}
	upLock, err := waitForLock(ctx, lay.upLock())
	if err != nil {
		return fmt.Errorf("waiting for another up: %w", err)
	}
	defer upLock.Close()
	lock, err := tryLock(lay.lock())
	if errors.Is(err, errLocked) {
		return adjust(ctx, lay, wanted{Options: options, Fingerprint: want}, out)
	}
	if err != nil {
		return err
	}
	err = cleanUp(ctx, lay)
	lock.Close()
	if err != nil {
		return err
	}

	log, err := os.Create(lay.log("cluster"))
	if err != nil {
		return fmt.Errorf("creating the supervisor's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(runCommand[0], runCommand[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // It outlives this process and its terminal.
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	state, err := awaitState(ctx, lay, func(state *State) (bool, error) {
		select {
		case <-exited:
			return false, fmt.Errorf("the cluster did not start\n%s", tail(lay.log("cluster")))
		default:
			return state != nil && state.Ready, nil
		}
	})
	if err != nil {
		if ctx.Err() != nil { // Interrupted: leave nothing half started.
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-exited
		}
		return err
	}
	describe(state, "is up", out)
	return nil
}

// adjust handles a cluster that already runs: it is left alone, or its supervisor replaces the project's own processes.
func adjust(ctx context.Context, lay layout, want wanted, out io.Writer) error {
	gone := func() error {
		if holder(lay).alive() {
			return nil
		}
		return fmt.Errorf("the cluster has ended\n%s", tail(lay.log("cluster")))
	}
	state, err := awaitState(ctx, lay, func(state *State) (bool, error) {
		return state != nil && (state.Ready || state.Error != ""), gone()
	})
	if err != nil {
		return err
	}
	if state.Options.Nodes != want.Options.Nodes || state.Options.Port != want.Options.Port {
		return errors.New("the cluster runs with other nodes or another port: run `make down` first")
	}
	if err := kubernetesReady(ctx, state); err != nil {
		return fmt.Errorf("the cluster in %s is running but not healthy, run `make down` first: %w", lay, err)
	}
	if state.Ready && state.Fingerprint == want.Fingerprint {
		describe(state, "is already up", out)
		return nil
	}

	if err := writeJSON(lay.wanted(), want); err != nil {
		return err
	}
	if err := syscall.Kill(state.Supervisor.PID, syscall.SIGUSR1); err != nil {
		return fmt.Errorf("signalling the supervisor: %w", err)
	}
	// The supervisor takes the wish back by removing Ready and Error before it acts, so what follows is its answer.
	state, err = awaitState(ctx, lay, func(state *State) (bool, error) {
		answered := state != nil && state.Fingerprint == want.Fingerprint && (state.Ready || state.Error != "")
		return answered, gone()
	})
	if err != nil {
		return err
	}
	if state.Error != "" {
		return fmt.Errorf("replacing the project's processes: %s", state.Error)
	}
	describe(state, "was up; the project's own processes have been replaced", out)
	return nil
}

// awaitState polls cluster.json, which changes at most a few times, until done.
func awaitState(ctx context.Context, lay layout, done func(*State) (bool, error)) (*State, error) {
	var state *State
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 3*readyTimeout, true, func(context.Context) (bool, error) {
		var err error
		if state, err = lay.readState(); err != nil {
			return false, err
		}
		return done(state)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the cluster: %w", err)
	}
	return state, nil
}

// Down stops the cluster in dir and removes its data. It also finds what is left of one whose supervisor was killed.
func Down(ctx context.Context, dir string, out io.Writer) error {
	lay := layout(dir)
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		fmt.Fprintf(out, "no cluster in %s\n", dir)
		return nil
	}
	lock, err := tryLock(lay.lock())
	if errors.Is(err, errLocked) {
		if err := holder(lay).end(ctx, supervisorGrace); err != nil {
			return fmt.Errorf("stopping the supervisor: %w", err)
		}
		if lock, err = waitForLock(ctx, lay.lock()); err != nil {
			return fmt.Errorf("waiting for the supervisor: %w", err)
		}
	} else if err != nil {
		return err
	}
	defer lock.Close()
	if err := cleanUp(ctx, lay); err != nil {
		return err
	}
	fmt.Fprintf(out, "the cluster in %s is down; its logs are in %s\n", dir, lay.logs())
	return nil
}

// cleanUp ends the recorded processes that still run, in the reverse order of their start, and removes their data.
func cleanUp(ctx context.Context, lay layout) error {
	state, err := lay.readState()
	if err != nil {
		return err
	}
	if state != nil {
		for i := len(state.Processes) - 1; i >= 0; i-- {
			if err := state.Processes[i].end(ctx, stopGrace); err != nil {
				return fmt.Errorf("stopping what is left: %w", err)
			}
		}
	}
	return lay.wipe()
}

// Status tells what runs in dir. It fails when no cluster is up.
func Status(ctx context.Context, dir string, out io.Writer) error {
	lay := layout(dir)
	state, err := lay.readState()
	if err != nil {
		return err
	}
	if state == nil {
		return fmt.Errorf("no cluster in %s", dir)
	}
	for _, id := range append([]ProcessID{state.Supervisor}, state.Processes...) {
		word := "running"
		if !id.alive() {
			word = "gone"
		}
		fmt.Fprintf(out, "%-26s %8d  %s\n", id.Name, id.PID, word)
	}
	if !state.Ready {
		return fmt.Errorf("the cluster is not ready %s", state.Error)
	}
	if err := kubernetesReady(ctx, state); err != nil {
		return err
	}
	if server := state.APIServer; server != nil && server.Program != "" {
		if err := server.ready(ctx); err != nil {
			return fmt.Errorf("checking %s: %w", apiServerName, err)
		}
	}
	describe(state, "is up", out)
	return nil
}

// holder reads who holds the lock. It is nobody's identity while the holder is still writing it.
func holder(lay layout) ProcessID {
	var id ProcessID
	_ = readJSON(lay.lock(), &id)
	return id
}

func kubernetesReady(ctx context.Context, state *State) error {
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		return fmt.Errorf("loading the administrator's kubeconfig: %w", err)
	}
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	if err := client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("checking kube-apiserver: %w", err)
	}
	return nil
}

func describe(state *State, what string, out io.Writer) {
	fmt.Fprintf(out, `the cluster %s: Kubernetes at %s, %d simulated nodes, logs in %s

  export KUBECONFIG=%s
  alias kubectl=%s
`, what, state.Server, state.Options.Nodes, layout(state.Dir).logs(), state.Kubeconfig, state.Programs["kubectl"])
}
