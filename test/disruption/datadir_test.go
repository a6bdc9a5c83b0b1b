// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSecondServerOnDataDir asserts that a server that is started by mistake on the data directory of another ends at
// once and says whom to stop, and that the first one does not notice.
func TestSecondServerOnDataDir(t *testing.T) {
	installed(t)
	namespace, pid := newNamespace(t), host.APIServerPID()
	createBackend(t, namespace, "before")

	stderr := expectNoStart(t, nil, replacePorts(t, host.APIServer.Args)...)
	for _, part := range []string{host.APIServer.DataDir, fmt.Sprintf("in use by process %d", pid), "stop that server", "--data-dir"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("standard error lacks %q:\n%s", part, stderr)
		}
	}

	if got := host.APIServerPID(); got != pid {
		t.Errorf("the first server has pid %d, it was %d", got, pid)
	}
	createBackend(t, namespace, "after")
	kill(t)
	start(t)
	waitServing(t)
	backends := ours(t).InferencecacheV1alpha1().CacheBackends(namespace)
	for _, name := range []string{"before", "after"} {
		if _, err := backends.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestUnusableDataDir asserts that a server that cannot keep its data ends at once with a message that names the
// directory and the trouble, instead of running on something else.
func TestUnusableDataDir(t *testing.T) {
	parent := t.TempDir()
	file := writeFile(t, parent, "file", nil)
	readOnly := filepath.Join(parent, "read-only")
	if err := os.Mkdir(readOnly, 0o555); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		dir  string
		as   *syscall.SysProcAttr
		want []string
	}{
		{name: "file", dir: file, want: []string{file, "is not a directory"}},
		{name: "below a file", dir: filepath.Join(file, "x"), want: []string{file, "is not a directory"}},
		{name: "not writable", dir: readOnly, as: unprivileged(t, parent), want: []string{readOnly, "is not writable for user"}},
		{name: "cannot be made", dir: filepath.Join(readOnly, "x"), as: unprivileged(t, parent), want: []string{readOnly, "creating data directory", "permission denied"}},
		{name: "none and no etcd", want: []string{"--data-dir must be given when --etcd-servers is not"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(replacePorts(t, host.APIServer.Args), "--data-dir="+tt.dir)
			stderr := expectNoStart(t, tt.as, args...)
			for _, part := range tt.want {
				if !strings.Contains(stderr, part) {
					t.Errorf("standard error lacks %q:\n%s", part, stderr)
				}
			}
		})
	}
}

// expectNoStart runs an API server that must end by itself and with an error, and returns its standard error.
func expectNoStart(t *testing.T, as *syscall.SysProcAttr, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, apiServerProgram(), args...)
	cmd.Stderr, cmd.SysProcAttr = &stderr, as
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() <= 0 {
		t.Fatalf("the server ends with %v, want an exit status above 0:\n%s", err, stderr.String())
	}
	return stderr.String()
}

// unprivileged makes a process of ours one that is not allowed to do everything, and lets it reach dir.
func unprivileged(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	const nobody = 65534
	for path := dir; path != filepath.Dir(path) && path != os.TempDir(); path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}
