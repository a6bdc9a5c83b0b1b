// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package launcher builds a real Kubernetes control plane from Go modules and runs it on one machine, on loopback only,
// together with the project's own processes.
package launcher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// programPackages maps each program to the package that it is built from.
var programPackages = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
	"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
	"kwok":                    "sigs.k8s.io/kwok/cmd/kwok",
}

var requireLine = regexp.MustCompile(`(?m)^\s*(?:require\s+)?(\S+) (v\S+)`)

// Modules is the content of the go.mod and go.sum that pin the programs. The launcher carries them inside itself, so that
// it always runs the programs it was made for and can build them wherever it lies.
type Modules struct {
	Mod, Sum []byte
}

// version returns the version of a module that go.mod requires.
func (m Modules) version(module string) (string, error) {
	for _, match := range requireLine.FindAllSubmatch(m.Mod, -1) {
		if string(match[1]) == module {
			return string(match[2]), nil
		}
	}
	return "", fmt.Errorf("go.mod does not require %s", module)
}

// linkerFlags sets the versions that the programs report. Clients parse the server's, so it must be the true one.
func (m Modules) linkerFlags() (string, error) {
	kubernetes, err := m.version("k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	kwok, err := m.version("sigs.k8s.io/kwok")
	if err != nil {
		return "", err
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(kubernetes, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")

	flags := []string{"-s", "-w", "-X sigs.k8s.io/kwok/pkg/consts.Version=" + kwok}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+kubernetes,
			"-X "+pkg+".gitMajor="+major,
			"-X "+pkg+".gitMinor="+minor,
			"-X "+pkg+".gitTreeState=clean")
	}
	return strings.Join(flags, " "), nil
}

// key names the folder of the built programs: everything that decides what is in them.
func (m Modules) key() (string, error) {
	kubernetes, err := m.version("k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	flags, err := m.linkerFlags()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, part := range [][]byte{m.Mod, m.Sum, []byte(flags)} {
		fmt.Fprintf(hash, "%d\n", len(part))
		hash.Write(part)
	}
	return fmt.Sprintf("%s-%s-%s-%s", kubernetes, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(hash.Sum(nil))[:16]), nil
}

// Programs is the folder with the built programs.
type Programs struct {
	Dir        string
	Kubernetes string
}

// Path returns the path of a program.
func (p Programs) Path(name string) string {
	return filepath.Join(p.Dir, name)
}

// Paths returns the path of each program by its name.
func (p Programs) Paths() map[string]string {
	paths := map[string]string{}
	for name := range programPackages {
		paths[name] = p.Path(name)
	}
	return paths
}

// Check fails when a program is missing.
func (p Programs) Check() error {
	for name := range programPackages {
		if info, err := os.Stat(p.Path(name)); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("program %s is missing in %s: build the programs with `make cluster-programs`", name, p.Dir)
		}
	}
	return nil
}

// Locate returns where the programs of these modules are or will be.
func Locate(m Modules) (Programs, error) {
	key, err := m.key()
	if err != nil {
		return Programs{}, err
	}
	kubernetes, err := m.version("k8s.io/kubernetes")
	if err != nil {
		return Programs{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return Programs{}, err
	}
	return Programs{Dir: filepath.Join(cache, key), Kubernetes: kubernetes}, nil
}

// cacheDir is shared by all checkouts of a user.
func cacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the cache folder: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "inferencecache"), nil
}

// Build makes sure that the programs exist. The folder appears by one rename, so whoever sees it sees all of it.
func Build(ctx context.Context, m Modules, progress io.Writer) (Programs, error) {
	programs, err := Locate(m)
	if err != nil {
		return Programs{}, err
	}
	if programs.Check() == nil {
		return programs, nil
	}
	if err := os.MkdirAll(filepath.Dir(programs.Dir), 0o755); err != nil {
		return Programs{}, fmt.Errorf("creating the cache folder: %w", err)
	}
	lock, err := waitForLock(ctx, programs.Dir+".lock")
	if err != nil {
		return Programs{}, fmt.Errorf("waiting for another build: %w", err)
	}
	defer lock.Close()
	if programs.Check() == nil { // Another process has built them in the meantime.
		return programs, nil
	}

	fmt.Fprintf(progress, "building the programs of Kubernetes %s into %s; a first build takes a quarter of an hour\n",
		programs.Kubernetes, programs.Dir)
	scratch, err := os.MkdirTemp(filepath.Dir(programs.Dir), "build-")
	if err != nil {
		return Programs{}, fmt.Errorf("creating the build folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	bin := filepath.Join(scratch, "bin")
	if err := m.compile(ctx, scratch, bin, progress); err != nil {
		return Programs{}, err
	}
	if err := os.RemoveAll(programs.Dir); err != nil {
		return Programs{}, fmt.Errorf("removing an incomplete build: %w", err)
	}
	if err := os.Rename(bin, programs.Dir); err != nil {
		return Programs{}, fmt.Errorf("publishing the build: %w", err)
	}
	return programs, programs.Check()
}

// compile builds all programs with one call, which shares most of the work. The module it runs in has no packages of its
// own, so nothing but go.mod and go.sum can change the result.
func (m Modules) compile(ctx context.Context, dir, bin string, progress io.Writer) error {
	for name, content := range map[string][]byte{"go.mod": m.Mod, "go.sum": m.Sum} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		return fmt.Errorf("creating the output folder: %w", err)
	}
	flags, err := m.linkerFlags()
	if err != nil {
		return err
	}
	args := []string{"build", "-mod=readonly", "-buildvcs=false", "-ldflags", flags, "-o", bin + string(filepath.Separator)}
	for _, pkg := range programPackages {
		args = append(args, pkg)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the programs: %w", err)
	}
	// The go command names a program after the last element of its package that is not a version.
	if err := os.Rename(filepath.Join(bin, "server"), filepath.Join(bin, "etcd")); err != nil {
		return fmt.Errorf("naming etcd: %w", err)
	}
	return nil
}
