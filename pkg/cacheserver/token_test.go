// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	fixture "inferencecache.io/inferencecache/test/cacheserver"
)

func TestTokenIsReadForEachCall(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	for path, call := range calls {
		file := filepath.Join(t.TempDir(), "token")
		client := newClient(t, Target{URL: server.URL(path), TokenFile: file})
		steps := []struct{ content, want string }{
			{"first", "Bearer first"}, {"\n second \r\n", "Bearer second"}, {"", ""}, {" \n", ""}, {"a:b/c+d=~", "Bearer a:b/c+d=~"},
		}
		for _, step := range steps {
			writeFile(t, file, step.content)
			if err := call(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			if got := server.LastHeader(path).Get("Authorization"); got != step.want {
				t.Errorf("%s: got %q, want %q", path, got, step.want)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := call(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		if _, sent := server.LastHeader(path)["Authorization"]; sent {
			t.Errorf("%s: sent the token of a file that is gone", path)
		}
	}
}

// TestUnusableToken holds that a probe is not sent without its token, and that the other calls say so.
func TestUnusableToken(t *testing.T) {
	t.Parallel()
	files := map[string]func(t *testing.T, path string){
		"a directory": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"a pipe": func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a loop of links": func(t *testing.T, path string) {
			if err := os.Symlink(path, path); err != nil {
				t.Fatal(err)
			}
		},
		"too large":        func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("x", maxTokenBytes+1)) },
		"two lines":        func(t *testing.T, path string) { writeFile(t, path, secret+"\n"+secret) },
		"a second header":  func(t *testing.T, path string) { writeFile(t, path, secret+"\r\nX-Admin: yes") },
		"two words":        func(t *testing.T, path string) { writeFile(t, path, "Bearer "+secret) },
		"control in it":    func(t *testing.T, path string) { writeFile(t, path, secret+"\x00x") },
		"not ASCII":        func(t *testing.T, path string) { writeFile(t, path, secret+"é") },
		"not even unicode": func(t *testing.T, path string) { writeFile(t, path, secret+"\xff") },
	}
	for name, create := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, fixture.Options{})
			file := filepath.Join(t.TempDir(), "token")
			create(t, file)
			for path, call := range calls {
				log := &memory{}
				err := call(klog.NewContext(t.Context(), funcr.New(log.add, funcr.Options{})), newClient(t, Target{URL: server.URL(path), TokenFile: file}))
				if path == fixture.ProbePath {
					if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), secret) || server.Requests(path) != 0 {
						t.Errorf("%s: got error %v and %d requests", path, err, server.Requests(path))
					}
					continue
				}
				if err != nil || server.Requests(path) != 1 {
					t.Errorf("%s: got error %v and %d requests", path, err, server.Requests(path))
				}
				if _, sent := server.LastHeader(path)["Authorization"]; sent {
					t.Errorf("%s: sent a token", path)
				}
				if text := log.text(); !strings.Contains(text, file) || strings.Contains(text, secret) {
					t.Errorf("%s: logged %q", path, text)
				}
			}
		})
	}
}

// memory is where a log goes.
type memory struct {
	mutex sync.Mutex
	lines []string
}

func (m *memory) add(prefix, args string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.lines = append(m.lines, prefix+args)
}

func (m *memory) text() string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return strings.Join(m.lines, "\n")
}
