// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// start runs a server on dir until the test ends.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// connect gives a client that is closed before the server is.
func connect(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	client, err := NewClient(ClientOptions{Endpoints: s.Endpoints()})
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func get(t *testing.T, client *clientv3.Client, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := client.Get(ctx, key)
	if err != nil {
		t.Fatalf("getting %s: %v", key, err)
	}
	if len(answer.Kvs) != 1 {
		t.Fatalf("getting %s: found %d keys, want one", key, len(answer.Kvs))
	}
	return string(answer.Kvs[0].Value)
}

func TestDataSurvivesRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by", "start")

	first := start(t, Options{DataDir: dir})
	client := connect(t, first)
	if _, err := client.Put(t.Context(), "key", "value"); err != nil {
		t.Fatalf("putting: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Fatalf("closing the client: %v", err)
	}
	sockets := string(first.sockets)
	first.Close()
	first.Close() // a second one does nothing

	select {
	case <-first.Done():
	default:
		t.Error("Done is open after Close")
	}
	if err := first.Err(); err != nil {
		t.Errorf("Err after Close is %v, want nil", err)
	}
	if _, err := os.Stat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("socket folder after Close: %v, want not exist", err)
	}

	second := start(t, Options{DataDir: dir})
	if got := get(t, connect(t, second), "key"); got != "value" {
		t.Errorf("after a restart key is %q, want %q", got, "value")
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, Options{DataDir: dir})
	for _, path := range []string{dir, filepath.Join(dir, etcdFolder), string(s.sockets)} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("%s has mode %o, want 700", path, got)
		}
	}
}

func TestLongDataDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("a", 110), strings.Repeat("b", 110))
	s := start(t, Options{DataDir: dir})
	client := connect(t, s)
	if _, err := client.Put(t.Context(), "key", "value"); err != nil {
		t.Fatalf("putting: %v", err)
	}
	if got := get(t, client, "key"); got != "value" {
		t.Errorf("key is %q, want %q", got, "value")
	}
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		o    Options
		want string
	}{
		{"no directory", Options{}, "needs a data directory"},
		{"a file", Options{DataDir: file}, "data directory " + file + " is not a directory"},
		{"below a file", Options{DataDir: filepath.Join(file, "x")}, "is not a directory"},
		{"negative quota", Options{DataDir: t.TempDir(), QuotaBytes: -1}, "must not be negative"},
		{"long socket", Options{DataDir: t.TempDir(), SocketParent: longDir(t)}, "too long for the path of a socket"},
		{"no socket", Options{DataDir: t.TempDir(), SocketParent: file}, "making a folder for the socket"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), tc.o)
			if err == nil {
				s.Close()
				t.Fatal("started, want an error")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %q, want it to contain %q", err, tc.want)
			}
		})
	}
}

func longDir(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), strings.Repeat("s", 100))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestInterruptedFirstStart cancels at several moments; whichever is hit, the directory is free and usable afterwards.
func TestInterruptedFirstStart(t *testing.T) {
	t.Parallel()
	for after := time.Duration(0); after < 100*time.Millisecond; after += 9 * time.Millisecond {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), after)
		s, err := Start(ctx, Options{DataDir: dir})
		cancel()
		switch {
		case err == nil:
			s.Close()
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("cancelled after %s: %v, want deadline exceeded", after, err)
		}
		s, err = Start(t.Context(), Options{DataDir: dir})
		if err != nil {
			t.Fatalf("starting again after a first start of %s: %v", after, err)
		}
		s.Close()
		if _, err := os.Stat(filepath.Join(dir, newFolder)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of the first start: %v, want not exist", err)
		}
	}
}

func TestCancelledStartTouchesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := Start(ctx, Options{DataDir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != lockName {
		t.Errorf("the directory has %v, error %v, want the lock alone", entries, err)
	}
}

// TestHalfMadeMember starts where a first start was killed in the middle of making its log.
func TestHalfMadeMember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, etcdFolder), 0o700); err != nil { // empty: as good as none
		t.Fatal(err)
	}
	half := filepath.Join(dir, newFolder, "member")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := wal.Create(zap.NewNop(), filepath.Join(half, "wal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = log.Close()
	start(t, Options{DataDir: dir})
}

func TestEndByItself(t *testing.T) {
	t.Parallel()
	s := start(t, Options{DataDir: t.TempDir()})
	select {
	case <-s.Done():
		t.Fatal("Done is closed while etcd runs")
	default:
	}
	s.member.etcd.Server.HardStop()
	<-s.Done()
	if err := s.Err(); !errors.Is(err, errStopped) {
		t.Errorf("Err is %v, want %v", err, errStopped)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	start(t, Options{DataDir: t.TempDir()})
	answer := httptest.NewRecorder()
	MetricsHandler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics/etcd", nil))
	if answer.Code != 200 {
		t.Fatalf("code %d: %s", answer.Code, answer.Body)
	}
	found := false
	for line := range strings.Lines(answer.Body.String()) {
		found = found || strings.HasPrefix(line, "etcd_mvcc_db_total_size_in_bytes")
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if !strings.HasPrefix(name, "etcd_") {
			t.Errorf("line of another metric: %s", line)
		}
	}
	if !found {
		t.Error("no size of the database in the metrics")
	}
}

// TestListensOnSocketsOnly looks at all sockets of this process, whoever opened them: a port or an abstract socket
// would hand the store to everybody on the machine.
func TestListensOnSocketsOnly(t *testing.T) {
	t.Parallel()
	start(t, Options{DataDir: t.TempDir()})
	mine := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				mine[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		for _, row := range procNet(t, table) {
			if mine[row[9]] && row[3] == "0A" {
				t.Errorf("listens on %s %s", table, row[1])
			}
		}
	}
	listening := 0
	for _, row := range procNet(t, "unix") {
		const acceptConnections = "00010000"
		if !mine[row[6]] || row[3] != acceptConnections {
			continue
		}
		listening++
		if len(row) < 8 || !strings.Contains(row[7], "/"+socketDirPrefix) {
			t.Errorf("listens on unix socket %q", fmt.Sprint(row[7:]))
		}
	}
	if listening == 0 {
		t.Error("found no listening socket of this process")
	}
}

// procNet gives the rows of a table of the kernel, without its head.
func procNet(t *testing.T, table string) [][]string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/" + table)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		rows = append(rows, strings.Fields(line))
	}
	return rows[1:]
}
