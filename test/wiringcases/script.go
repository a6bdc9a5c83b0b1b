// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiringcases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	configDir     = "/etc/lmcache"
	scriptTimeout = 30 * time.Second
)

// standIn is what runs in the place of python3: it writes down its process and arguments.
const standIn = `#!/bin/sh
printf '%s\0' "$$" "$@" >"${0%/*}/argv"
`

// RunWorkerScript runs the script of a worker with a folder of its own in the place of the
// real one, and a stand-in for python3. It returns the file that the script wrote and the
// command that it became.
func RunWorkerScript(ctx context.Context, script string) (config string, argv []string, err error) {
	dir, err := os.MkdirTemp("", "worker")
	if err != nil {
		return "", nil, fmt.Errorf("creating a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(standIn), 0o700); err != nil {
		return "", nil, fmt.Errorf("writing the stand-in: %w", err)
	}

	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(script, configDir, dir))
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("running the script: %w: %s", err, out)
	}
	written, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		return "", nil, fmt.Errorf("reading the configuration: %w", err)
	}
	recorded, err := os.ReadFile(filepath.Join(dir, "argv"))
	if err != nil {
		return "", nil, fmt.Errorf("reading what was run: %w", err)
	}
	words := strings.Split(strings.TrimSuffix(string(recorded), "\x00"), "\x00")
	if words[0] != strconv.Itoa(cmd.Process.Pid) {
		return "", nil, errors.New("the script stays beside the server, which then gets no signals")
	}
	return string(written), append([]string{"python3"}, words[1:]...), nil
}

// checkScript runs the script of a container, if the case says what it does.
func checkScript(c Container, spec corev1.PodSpec) error {
	if c.WorkerScript == nil {
		return nil
	}
	container := find(slices.Concat(spec.InitContainers, spec.Containers), c.Name)
	if container == nil || len(container.Args) != 1 {
		return errors.New("there is no script")
	}
	text, argv, err := RunWorkerScript(context.Background(), container.Args[0])
	if err != nil {
		return err
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	got := WorkerScript{Config: config, Argv: argv}
	if diff := cmp.Diff(*c.WorkerScript, got); diff != "" {
		return fmt.Errorf("script (-want +got):\n%s", diff)
	}
	return nil
}
