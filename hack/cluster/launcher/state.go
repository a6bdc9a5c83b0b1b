// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// State is the content of cluster.json: all that a user, a test or a later "down" needs to know of a cluster.
type State struct {
	Dir string `json:"dir"`
	// Ready is true when everything that was asked for is up.
	Ready bool `json:"ready"`
	// Error tells why the project's own processes could not be replaced.
	Error string `json:"error,omitempty"`
	// Server is the URL of kube-apiserver, Kubeconfig the administrator's access to it.
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	// Programs has the path of each program of the control plane.
	Programs map[string]string `json:"programs"`
	// APIServer and Controller are set when they are started or prepared.
	APIServer  *OwnProcess `json:"apiServer,omitempty"`
	Controller *OwnProcess `json:"controller,omitempty"`

	Options     Options     `json:"options"`
	Fingerprint string      `json:"fingerprint"`
	Supervisor  ProcessID   `json:"supervisor"`
	Processes   []ProcessID `json:"processes"`
}

// OwnProcess is what is needed to start one of the project's own processes against this cluster.
type OwnProcess struct {
	// Program is empty when the process is only prepared.
	Program string `json:"program,omitempty"`
	// Args are the arguments that connect it to this cluster; ExtraArgs the ones the user gave besides.
	Args      []string `json:"args"`
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// Kubeconfig has the identity of its service account and no more rights than the manifests give to that.
	Kubeconfig string `json:"kubeconfig"`
	// Port serves /readyz. WebhookPort is where the API server serves the Pod webhook, MetricsPort the controller's
	// metrics. Only the API server has a certificate.
	Port        int    `json:"port"`
	WebhookPort int    `json:"webhookPort,omitempty"`
	MetricsPort int    `json:"metricsPort,omitempty"`
	CAFile      string `json:"caFile,omitempty"`
	CertFile    string `json:"certFile,omitempty"`
	KeyFile     string `json:"keyFile,omitempty"`
	DataDir     string `json:"dataDir,omitempty"`
	Log         string `json:"log"`
}

// layout names the files of a cluster's folder.
type layout string

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{string(l)}, elem...)...)
}
func (l layout) logs() string           { return l.path("logs") }
func (l layout) log(name string) string { return l.path("logs", name+".log") }
func (l layout) pki() string            { return l.path("pki") }
func (l layout) state() string          { return l.path("cluster.json") }
func (l layout) wanted() string         { return l.path("wanted.json") }

// lock is held by the supervisor, upLock by an "up" while it looks and acts.
func (l layout) lock() string   { return l.path("lock") }
func (l layout) upLock() string { return l.path("up.lock") }

// wipe removes everything but the logs, and the locks, which somebody may hold.
func (l layout) wipe() error {
	entries, err := os.ReadDir(string(l))
	if err != nil {
		return fmt.Errorf("listing the cluster's folder: %w", err)
	}
	for _, entry := range entries {
		if path := l.path(entry.Name()); !slices.Contains([]string{l.logs(), l.lock(), l.upLock()}, path) {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("removing the cluster's data: %w", err)
			}
		}
	}
	return nil
}

// readState returns nil without an error when there is no cluster.json.
func (l layout) readState() (*State, error) {
	var state State
	if err := readJSON(l.state(), &state); err != nil {
		if os.IsNotExist(err) {
			return nil, nil
		}
		return nil, err
	}
	return &state, nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decoding %s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file by one rename, so that a reader sees the old content or the new.
func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return nil
}
