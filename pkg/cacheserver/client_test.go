// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	fixture "inferencecache.io/inferencecache/test/cacheserver"
)

// secret is the token of all tests. It looks like one, so that nothing is redacted by chance.
const secret = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjb250cm9sbGVyIn0.c2lnbmF0dXJl"

func newServer(t *testing.T, options fixture.Options) *fixture.Server {
	t.Helper()
	server, err := fixture.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return server
}

// newClient makes a client with patience, since no test is about the speed of a machine.
func newClient(t *testing.T, target Target) *Client {
	t.Helper()
	target.Timeout = cmp.Or(target.Timeout, time.Hour)
	client, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func tokenFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, content)
	return file
}

var probe = ProbeRequest{Backend: "orchid/llama-cache", Model: "functional-self-test", HashScheme: "vllm", BackendType: "LMCache"}

// calls are all ways to use a client, with the path of each.
var calls = map[string]func(context.Context, *Client) error{
	fixture.SnapshotPath: func(ctx context.Context, c *Client) error {
		snapshot, err := c.Snapshot(ctx)
		return all(err, snapshot == nil)
	},
	fixture.ProbePath: func(ctx context.Context, c *Client) error {
		result, err := c.Probe(ctx, probe)
		return all(err, result == nil)
	},
	fixture.PolicyPath: func(ctx context.Context, c *Client) error {
		return c.Push(ctx, &PolicyState{Version: PolicyVersion})
	},
}

// all holds that there is a result or an error, and never both.
func all(err error, empty bool) error {
	if (err != nil) != empty {
		return fmt.Errorf("a result together with the error %w", err)
	}
	return err
}

func TestNewChecksURL(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"":                                    "http:// or https://",
		"inference-cache-server:8081/probe":   "http:// or https://",
		"ftp://cache/snapshot":                "http:// or https://",
		"http:///snapshot":                    "no host",
		"http://:8081/snapshot":               "no host",
		"http:cache/snapshot":                 "no host",
		"http://me:password@cache/snapshot":   "user or password",
		"http://cache/snapshot#top":           "fragment",
		"http://cache:port/snapshot":          "invalid port",
		"http://me:password@ca che/snapshot":  "cannot be parsed",
		"http://me:password@cache/snapshot\n": "cannot be parsed",
	}
	for raw, want := range tests {
		client, err := New(Target{URL: raw})
		if client != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "password@") {
			t.Errorf("%q: got error %v, want one with %q", raw, err, want)
		}
	}
	for _, raw := range []string{"http://inference-cache-server:8081/snapshot", "HTTPS://[::1]:8081/probe", "https://cache"} {
		if _, err := New(Target{URL: raw}); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	client := newClient(t, Target{URL: server.URL(fixture.SnapshotPath)})
	when := time.Date(2027, 3, 2, 9, 15, 30, 250_000_000, time.FixedZone("", 7200))
	server.SetSnapshot(fixture.Snapshot{
		Replicas: []fixture.Replica{{ID: "r", Tenant: "orchid", HitRate: 1.0 / 3, LastUpdate: when, PrefixCount: 3}},
		Tenants:  []fixture.Tenant{{ID: "orchid", IndexEntries: 3, MemoryUsed: 7}},
	})
	got, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &Snapshot{
		Replicas:      []Replica{{ID: "r", Tenant: "orchid", HitRate: 1.0 / 3, LastUpdate: when.UTC(), PrefixCount: 3}},
		Tenants:       []Tenant{{ID: "orchid", IndexEntries: 3}},
		TotalPrefixes: 3,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := server.LastHeader(fixture.SnapshotPath).Get("Accept-Encoding"); got != "" {
		t.Errorf("asked for the encoding %q", got)
	}
}

// TestStatuses holds that only the right statuses count, and that errors name status, cause and URL.
func TestStatuses(t *testing.T) {
	t.Parallel()
	tests := map[int]string{
		http.StatusMovedPermanently:    "redirects to",
		http.StatusBadRequest:          "400 Bad Request: said so",
		http.StatusUnauthorized:        "has expired, or is for another audience): said so",
		http.StatusForbidden:           "does not admit the service account of the token): said so",
		http.StatusNotFound:            "404 Not Found: said so",
		http.StatusInternalServerError: "500 Internal Server Error: said so",
		http.StatusServiceUnavailable:  "503 Service Unavailable (this may pass): said so",
		599:                            "599: said so",
	}
	server := newServer(t, fixture.Options{})
	file := tokenFile(t, secret)
	for code, want := range tests {
		for path, call := range calls {
			server.SetBehavior(path, fixture.Answer(code, "\n said\x1b\tso \xff\n"))
			err := call(t.Context(), newClient(t, Target{URL: server.URL(path), TokenFile: file}))
			status, ok := errors.AsType[*StatusError](err)
			if !ok || status.Code != code || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), server.URL(path)) {
				t.Errorf("%s with %d: got error %v, want one with %q", path, code, err, want)
			}
		}
	}
	server.SetBehavior(fixture.PolicyPath, fixture.Answer(http.StatusAccepted, ""))
	if err := calls[fixture.PolicyPath](t.Context(), newClient(t, Target{URL: server.URL(fixture.PolicyPath)})); err != nil {
		t.Errorf("policy with 202: %v", err)
	}
	server.SetBehavior(fixture.SnapshotPath, fixture.Answer(http.StatusCreated, "{}"))
	if err := calls[fixture.SnapshotPath](t.Context(), newClient(t, Target{URL: server.URL(fixture.SnapshotPath)})); err == nil {
		t.Error("a snapshot came with status 201")
	}
}

func TestNoTokenIsTheLikelyCause(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	server.SetBehavior(fixture.SnapshotPath, fixture.Answer(http.StatusUnauthorized, "unauthorized"))
	missing := filepath.Join(t.TempDir(), "token")
	for file, want := range map[string]string{missing: missing, "": "no token file is configured"} {
		_, err := newClient(t, Target{URL: server.URL(fixture.SnapshotPath), TokenFile: file}).Snapshot(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no token was sent") || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	server, other := newServer(t, fixture.Options{}), newServer(t, fixture.Options{})
	file := tokenFile(t, secret)
	for path, call := range calls {
		for _, code := range []int{301, 302, 303, 307, 308} {
			// The same server counts as well as another one.
			for _, location := range []string{other.URL(path), "/elsewhere", other.URL(path) + "?token=" + secret} {
				server.SetBehavior(path, fixture.Redirect(code, location))
				err := call(t.Context(), newClient(t, Target{URL: server.URL(path), TokenFile: file}))
				if status, ok := errors.AsType[*StatusError](err); !ok || status.Code != code || strings.Contains(err.Error(), secret) {
					t.Errorf("%s with %d to %s: got error %v", path, code, location, err)
				}
			}
		}
		if n := other.Requests(path) + server.Requests("/elsewhere"); n != 0 {
			t.Errorf("%s: followed %d redirects", path, n)
		}
	}
}

// TestTokenIsNotRepeated lets the server say the token in every way, also where an excerpt of a long body would cut it.
func TestTokenIsNotRepeated(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	file := tokenFile(t, secret)
	behaviors := map[string]fixture.Behavior{
		"header echoed":           fixture.Repeat(http.StatusInternalServerError),
		"header echoed with 200":  fixture.Repeat(http.StatusOK),
		"cut at the start":        fixture.Answer(http.StatusBadRequest, strings.Repeat("x", maxExcerptBytes-1)+secret),
		"cut at the end":          fixture.Answer(http.StatusBadRequest, strings.Repeat("x", maxExcerptBytes-len(secret)+1)+secret),
		"many":                    fixture.Answer(http.StatusBadRequest, strings.Repeat(secret, 100)),
		"as a stage":              fixture.Answer(http.StatusOK, `{"backend":"orchid/llama-cache","ingest":"`+secret+`"}`),
		"as what a stage says":    fixture.Answer(http.StatusOK, `{"backend":"orchid/llama-cache","ingest":"failed","errors":[{"message":"`+secret+`"}]}`),
		"as a time":               fixture.Answer(http.StatusOK, `{"replicas":[{"lastUpdate":"`+secret+`"}]}`),
		"as a status line":        raw("HTTP/1.1 " + secret + "\r\n\r\n"),
		"as a header":             raw("HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n"),
		"as a location":           raw("HTTP/1.1 302 Found\r\nLocation: http://[" + secret + "\r\nContent-Length: 0\r\n\r\n"),
		"instead of HTTP":         raw(secret),
		"instead of HTTP, longer": raw(strings.Repeat(secret, 500) + "\r\n\r\n"),
	}
	for name, behavior := range behaviors {
		for path, call := range calls {
			if path == fixture.PolicyPath && strings.Contains(name, "200") || path != fixture.ProbePath && strings.HasPrefix(name, "as a stage") {
				continue
			}
			server.SetBehavior(path, behavior)
			err := call(t.Context(), newClient(t, Target{URL: server.URL(path), TokenFile: file}))
			if err == nil {
				if path == fixture.ProbePath {
					t.Errorf("%s: the probe passed with the token %s", path, name)
				}
				continue
			}
			// A part of a token is no secret, but more than there is to say.
			if text := err.Error(); strings.Contains(text, secret[:8]) || len(text) > maxErrorBytes {
				t.Errorf("%s: the token %s gives the error %.3000s", path, name, text)
			}
		}
	}
}

// raw answers with bytes that may not be HTTP.
func raw(answer string) fixture.Behavior {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			connection, buffer, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer connection.Close()
			_, _ = buffer.WriteString(answer)
			_ = buffer.Flush()
		})
	}
}

func TestTooMuch(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	server.SetBehavior(fixture.SnapshotPath, fixture.Flood(http.StatusOK, ' ', 1<<30))
	server.SetBehavior(fixture.ProbePath, fixture.Flood(http.StatusOK, ' ', MaxProbeBytes+1))
	for path, limit := range map[string]int64{fixture.SnapshotPath: maxValueBytes, fixture.ProbePath: MaxProbeBytes} {
		client := newClient(t, Target{URL: server.URL(path)})
		if err := calls[path](t.Context(), client); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("larger than %d bytes", limit)) {
			t.Errorf("%s: got error %v", path, err)
		}
	}
	// So is an index of rows that are all small enough.
	row := `{"replicaId":"` + strings.Repeat("x", 1<<10) + `"},`
	server.SetBehavior(fixture.SnapshotPath, fixture.Answer(http.StatusOK, `{"replicas":[`+strings.Repeat(row, MaxSnapshotBytes/len(row)+1)))
	index := newClient(t, Target{URL: server.URL(fixture.SnapshotPath), Timeout: time.Minute})
	if err := calls[fixture.SnapshotPath](t.Context(), index); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("larger than %d bytes", MaxSnapshotBytes)) {
		t.Errorf("got error %v", err)
	}
	// A body of the largest size is looked at.
	server.SetBehavior(fixture.ProbePath, fixture.Flood(http.StatusOK, ' ', MaxProbeBytes))
	err := calls[fixture.ProbePath](t.Context(), newClient(t, Target{URL: server.URL(fixture.ProbePath)}))
	if err == nil || !strings.Contains(err.Error(), "decoding the answer") {
		t.Errorf("got error %v", err)
	}
	server.SetBehavior(fixture.PolicyPath, fixture.Flood(http.StatusBadRequest, 'x', 1<<30))
	err = calls[fixture.PolicyPath](t.Context(), newClient(t, Target{URL: server.URL(fixture.PolicyPath)}))
	if status, ok := errors.AsType[*StatusError](err); !ok || len(status.Body) != maxExcerptBytes {
		t.Errorf("got error %v", err)
	}
}

// TestPatience lets the server hang, before the header and in the body. The budget ends that, and so does the caller.
func TestPatience(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	released := make(chan struct{})
	defer close(released)
	for path, call := range calls {
		behaviors := map[string]fixture.Behavior{"before the header": fixture.HoldUntil(released)}
		if path != fixture.PolicyPath { // A body is not looked at there.
			behaviors["in the body"] = fixture.Stall(`{"replicas":[`, released)
		}
		for name, behavior := range behaviors {
			server.SetBehavior(path, behavior)
			err := call(t.Context(), newClient(t, Target{URL: server.URL(path), Timeout: 50 * time.Millisecond}))
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no complete answer within 50ms") {
				t.Errorf("%s hanging %s: got error %v", path, name, err)
			}

			ctx, cancel := context.WithCancel(t.Context())
			asked := server.Requests(path)
			done := make(chan error, 1)
			go func() { done <- call(ctx, newClient(t, Target{URL: server.URL(path)})) }()
			for server.Requests(path) == asked {
				time.Sleep(time.Millisecond)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s hanging %s, cancelled: got error %v", path, name, err)
			}
		}
	}
}

func TestDefaultTimeout(t *testing.T) {
	t.Parallel()
	client, err := New(Target{URL: "http://cache"})
	if err != nil {
		t.Fatal(err)
	}
	if got := client.target.Timeout; got != 5*time.Second {
		t.Errorf("got %s", got)
	}
}

// TestOneTry holds that a call is made once, whatever becomes of it, and on a connection of its own.
func TestOneTry(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	for path, call := range calls {
		client := newClient(t, Target{URL: server.URL(path)})
		for i, behavior := range []fixture.Behavior{nil, fixture.Drop(), nil, fixture.Answer(503, ""), fixture.Drop()} {
			server.SetBehavior(path, behavior)
			if err := call(t.Context(), client); (err == nil) != (behavior == nil) {
				t.Errorf("%s: got error %v", path, err)
			}
			if got := server.Requests(path); got != i+1 {
				t.Fatalf("%s: %d requests for %d calls", path, got, i+1)
			}
			if got := server.LastHeader(path).Get("Connection"); got != "close" {
				t.Errorf("%s: connection is kept: %q", path, got)
			}
		}
	}
}

func TestServerThatComesBack(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	client := newClient(t, Target{URL: server.URL(fixture.SnapshotPath)})
	for range 3 {
		if _, err := client.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Fatalf("got error %v", err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGarbageWithStatus200(t *testing.T) {
	t.Parallel()
	server := newServer(t, fixture.Options{})
	for _, path := range []string{fixture.SnapshotPath, fixture.ProbePath} {
		client := newClient(t, Target{URL: server.URL(path)})
		for _, body := range []string{"", "<!doctype html><title>Sign in</title>", "null", "[]", "\x00\x01", `{"backend"`} {
			server.SetBehavior(path, fixture.Answer(http.StatusOK, body))
			if err := calls[path](t.Context(), client); err == nil {
				t.Errorf("%s: took %q", path, body)
			}
		}
	}
}

// TestEnvironmentProxy makes sure that a proxy of the environment gets to see nothing.
func TestEnvironmentProxy(t *testing.T) {
	t.Parallel()
	if proxy := newClient(t, Target{URL: "http://cache"}).http.Transport.(*http.Transport).Proxy; proxy != nil {
		t.Error("the transport asks for a proxy")
	}
}

// TestErrorsAreStable: the text of an error ends up in conditions, which must not change
// with the port that a call happened to have.
func TestErrorsAreStable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"read tcp 127.0.0.1:51234->127.0.0.1:8081: read: connection reset by peer": "read tcp 127.0.0.1:8081: read: connection reset by peer",
		"read udp [fd00::1]:40001->[fd00::a]:53: i/o timeout":                      "read udp [fd00::a]:53: i/o timeout",
		"dial tcp 127.0.0.1:8081: connect: connection refused":                     "dial tcp 127.0.0.1:8081: connect: connection refused",
		"a -> b": "a -> b",
	} {
		cause := errors.New(text)
		got := presentable(cause, "")
		if got.Error() != want || !errors.Is(got, cause) {
			t.Errorf("%q became %q", text, got)
		}
	}
}
