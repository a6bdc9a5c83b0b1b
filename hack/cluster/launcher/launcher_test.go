// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func TestSplitArgs(t *testing.T) {
	tests := []struct {
		line string
		want []string
		fail bool
	}{
		{line: ""},
		{line: "  \t "},
		{line: "-v=2 --flag value", want: []string{"-v=2", "--flag", "value"}},
		{line: `--a="x y" 'p q'r`, want: []string{"--a=x y", "p qr"}},
		{line: `--empty= "" ''`, want: []string{"--empty=", "", ""}},
		{line: `a\ b "c\"d" "e\f" 'g\h'`, want: []string{"a b", `c"d`, `e\f`, `g\h`}},
		{line: `"it's"`, want: []string{"it's"}},
		{line: `"open`, fail: true},
		{line: `open\`, fail: true},
	}
	for _, test := range tests {
		got, err := SplitArgs(test.line)
		if (err != nil) != test.fail || !slices.Equal(got, test.want) {
			t.Errorf("SplitArgs(%q) = %q, %v; want %q, failure %v", test.line, got, err, test.want, test.fail)
		}
	}
}

func TestKey(t *testing.T) {
	base := Modules{Mod: []byte("require (\n\tk8s.io/kubernetes v1.37.2\n\tsigs.k8s.io/kwok v0.8.0 // indirect\n)\n"), Sum: []byte("sum")}
	key := func(m Modules) string {
		t.Helper()
		key, err := m.key()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	if !strings.HasPrefix(key(base), "v1.37.2-") {
		t.Errorf("key %q does not begin with the version of Kubernetes", key(base))
	}
	tests := []struct {
		name     string
		mod, sum string
		same     bool
	}{
		{name: "same", mod: string(base.Mod), sum: "sum", same: true},
		{name: "other go.mod", mod: string(base.Mod) + "// more\n", sum: "sum"},
		{name: "other go.sum", mod: string(base.Mod), sum: "sun"},
		{name: "a byte moved between them", mod: string(base.Mod) + "s", sum: "um"},
	}
	for _, test := range tests {
		if got := key(Modules{Mod: []byte(test.mod), Sum: []byte(test.sum)}) == key(base); got != test.same {
			t.Errorf("%s: same key %v, want %v", test.name, got, test.same)
		}
	}
	if _, err := (Modules{Mod: []byte("module x\n")}).key(); err == nil {
		t.Error("a go.mod without Kubernetes has a key")
	}
}

func TestPointAt(t *testing.T) {
	ref := serviceRef{name: "ours", caBundle: []byte("certificate"), port: 20001, webhookPort: 20002}
	bundle := base64.StdEncoding.EncodeToString(ref.caBundle)
	tests := []struct {
		name, in, want string
	}{
		{
			name: "APIService",
			in:   "{kind: APIService, spec: {insecureSkipTLSVerify: true, version: v1, service: {name: ours, port: 443}}}",
			want: "{kind: APIService, spec: {caBundle: " + bundle + ", version: v1, service: {name: ours, port: 20001}}}",
		},
		{
			name: "somebody else's APIService",
			in:   "{kind: APIService, spec: {insecureSkipTLSVerify: true, service: {name: theirs, port: 443}}}",
			want: "{kind: APIService, spec: {insecureSkipTLSVerify: true, service: {name: theirs, port: 443}}}",
		},
		{
			name: "webhooks",
			in: "{kind: MutatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {service: {name: ours, path: /mutate}}}," +
				" {name: b, clientConfig: {url: https://elsewhere}}]}",
			want: "{kind: MutatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {caBundle: " + bundle +
				", service: {name: ours, path: /mutate, port: 20002}}}, {name: b, clientConfig: {url: https://elsewhere}}]}",
		},
		{
			name: "anything else, and an empty document",
			in:   "{kind: Service, spec: {ports: [{port: 443}]}}\n---\n# nothing\n---\n{kind: Secret, stringData: {a: \"1\"}}",
			want: "{kind: Service, spec: {ports: [{port: 443}]}}\n---\n{kind: Secret, stringData: {a: \"1\"}}",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ref.pointAt([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			var want strings.Builder
			for document := range strings.SplitSeq(test.want, "\n---\n") {
				var object any
				if err := yaml.Unmarshal([]byte(document), &object); err != nil {
					t.Fatal(err)
				}
				data, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				want.WriteString("---\n" + string(data))
			}
			if string(got) != want.String() {
				t.Errorf("got\n%s\nwant\n%s", got, want.String())
			}
		})
	}
	if _, err := ref.pointAt([]byte("kind: [")); err == nil {
		t.Error("broken YAML is accepted")
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path); !errors.Is(err, errLocked) {
		t.Errorf("second lock: %v, want %v", err, errLocked)
	}
	lock.Close()
	again, err := waitForLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestProcessID(t *testing.T) {
	self := identify("test", os.Getpid())
	if !self.alive() {
		t.Error("this process is said to be gone")
	}
	recycled := self
	recycled.Start += "0"
	if recycled.alive() {
		t.Error("a process with the same pid but another start is taken for this one")
	}
	if err := recycled.end(t.Context(), time.Second); err != nil {
		t.Errorf("ending a process that is gone: %v", err)
	}

	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	id := identify("sleep", sleeper.Process.Pid)
	go func() { _ = sleeper.Wait() }()
	if err := id.end(t.Context(), time.Second); err != nil || id.alive() {
		t.Errorf("ending a process: %v, alive %v", err, id.alive())
	}
}
