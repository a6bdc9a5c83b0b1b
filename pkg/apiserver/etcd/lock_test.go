// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childDir is the environment variable that turns the test binary into a server on that directory.
const childDir = "INFERENCE_CACHE_ETCD_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child serves until it is killed, or until its input ends because the parent has died.
func child(dir string) int {
	s, err := Start(context.Background(), Options{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("serving", s.sockets)
	_, _ = os.Stdin.Read(make([]byte, 1))
	s.Close()
	return 0
}

// run starts a child on dir and returns its first line.
func run(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a child: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("reading from the child: %v", err)
	}
	return cmd, strings.TrimSpace(line)
}

func inUse(dir string, pid int) string {
	return fmt.Sprintf("data directory %s is in use by process %d: stop that server or give this one its own --data-dir",
		dir, pid)
}

func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Options{DataDir: dir})
	client := connect(t, s)

	began := time.Now()
	_, err := Start(t.Context(), Options{DataDir: dir})
	if want := inUse(dir, os.Getpid()); err == nil || err.Error() != want {
		t.Errorf("in the same process: error %v, want %s", err, want)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the refusal took %s", took)
	}
	cmd, line := run(t, dir)
	if want := inUse(dir, os.Getpid()); line != want {
		t.Errorf("in another process: %q, want %q", line, want)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the second process ended well, want an error")
	}

	// The first one is not hurt by either.
	if _, err := client.Put(t.Context(), "key", "value"); err != nil {
		t.Errorf("putting after the refusals: %v", err)
	}
	if got := get(t, connect(t, s), "key"); got != "value" {
		t.Errorf("key is %q over a new connection, want %q", got, "value")
	}
}

func TestKilledServerLeavesNoLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, line := run(t, dir)
	sockets, ok := strings.CutPrefix(line, "serving ")
	if !ok {
		t.Fatalf("the child says %q", line)
	}
	_, err := Start(t.Context(), Options{DataDir: dir})
	if want := inUse(dir, cmd.Process.Pid); err == nil || err.Error() != want {
		t.Errorf("while the child runs: error %v, want %s", err, want)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, err := os.Stat(filepath.Join(sockets, socketName)); err != nil {
		t.Fatalf("the killed child's socket: %v", err)
	}

	client := connect(t, start(t, Options{DataDir: dir}))
	if _, err := client.Put(t.Context(), "key", "value"); err != nil {
		t.Errorf("putting: %v", err)
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("the killed child's socket folder: %v, want not exist", err)
	}
}

func TestDatabaseInOtherHands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, Options{DataDir: dir}).Close()
	path := filepath.Join(dir, etcdFolder, "member", "snap", "db")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{DataDir: dir}); err == nil || !strings.Contains(err.Error(), path+" is in use") {
		t.Errorf("error %v, want one that says %s is in use", err, path)
	}
	_ = f.Close()
	start(t, Options{DataDir: dir})
}

func TestReadOnlyDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error)
	go func() {
		// Root may write everywhere, so this thread becomes somebody else as far as files go. It is never unlocked: the
		// runtime ends it with the goroutine.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			_ = unix.Setfsuid(65534) // reports no error that means anything
		}
		_, err := lockDir(dir)
		refused <- err
	}()
	want := "data directory " + dir + " is not writable for user"
	if err := <-refused; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, file, want string }{
		{"not yet written", "", "another process"},
		{"half written", "12\n" + host, "another process"},
		{"nonsense", "a\nb\nc\n", "another process"},
		{"here", "12\n" + host + "\n/s\n", "process 12"},
		{"elsewhere", "1\nother-pod\n/s\n", "process 1 on host other-pod"},
	} {
		if got := readHolder(strings.NewReader(tc.file)).String(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestForeignFolderStays holds for whatever a damaged lock file names.
func TestForeignFolderStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, s := range []socketDir{"", socketDir(dir), socketDir(socketDirPrefix + "x"), "/"} {
		s.remove()
	}
	full := filepath.Join(dir, socketDirPrefix+"x")
	if err := os.MkdirAll(filepath.Join(full, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	socketDir(full).remove()
	if _, err := os.Stat(filepath.Join(full, "other")); err != nil {
		t.Errorf("a folder with other things in it: %v", err)
	}
}
