// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cacheserver"
)

// stage is a controller that was started for one test, beside a cache server that says what the test wants. Such a test must
// not run beside others.
type stage struct {
	*testing.T
	server *cacheserver.Server
	// tokenFile and policyTokenFile are where the controller reads its tokens.
	tokenFile, policyTokenFile string

	replicas map[string][]cacheserver.Replica
	tenants  map[string]int64
	logStart int64
}

// newStage starts the controller anew, with more arguments, and at the end of the test once more without them.
func newStage(t *testing.T, args ...string) *stage {
	t.Helper()
	server, err := cacheserver.New(cacheserver.Options{
		Reviews: env.kube.AuthenticationV1().TokenReviews(), AllowedUsers: []string{controllerUser},
	})
	must(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	dir := t.TempDir()
	s := &stage{
		T: t, server: server, replicas: map[string][]cacheserver.Replica{}, tenants: map[string]int64{},
		tokenFile: filepath.Join(dir, "controller"), policyTokenFile: filepath.Join(dir, "policy"),
	}
	s.issue(s.tokenFile, cacheserver.ControllerAudience)
	s.issue(s.policyTokenFile, cacheserver.PolicyAudience)
	if info, err := os.Stat(env.Controller.Log); err == nil {
		s.logStart = info.Size()
	}
	s.restart(slices.Concat([]string{
		"--server-snapshot-url=" + server.URL(cacheserver.SnapshotPath), "--cacheindex-refresh-interval=200ms",
		"--server-policy-url=" + server.URL(cacheserver.PolicyPath),
		"--server-probe-url=" + server.URL(cacheserver.ProbePath),
		"--server-token-file=" + s.tokenFile, "--policy-token-file=" + s.policyTokenFile,
	}, args)...)
	t.Cleanup(func() {
		s.expectNoTokenInLog()
		s.restart()
	})
	return s
}

func (s *stage) restart(args ...string) {
	s.Helper()
	must(s.T, env.stopController())
	extraArgs = args
	// The context of a test has ended when it is cleaned up.
	must(s.T, env.startController(context.WithoutCancel(s.Context())))
}

// issue writes a token of the controller's account into a file.
func (s *stage) issue(file, audience string) {
	s.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	accounts := env.kube.CoreV1().ServiceAccounts("inference-cache-system")
	request, err := accounts.CreateToken(s.Context(), "inference-cache-controller", request, metav1.CreateOptions{})
	must(s.T, err)
	must(s.T, os.WriteFile(file, []byte(request.Status.Token+"\n"), 0o600))
}

// log is what the controller has logged since it was started for the test.
func (s *stage) log() []byte {
	s.Helper()
	file, err := os.Open(env.Controller.Log)
	must(s.T, err)
	defer file.Close()
	_, err = file.Seek(s.logStart, io.SeekStart)
	must(s.T, err)
	data, err := io.ReadAll(file)
	must(s.T, err)
	return data
}

// logged is how often a text is in the log.
func (s *stage) logged(text string) int {
	s.Helper()
	return strings.Count(string(s.log()), text)
}

func (s *stage) waitLogged(text string) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("%q is logged", text), func(context.Context) error {
		if s.logged(text) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}

func (s *stage) expectNoTokenInLog() {
	s.Helper()
	log := s.log()
	for _, file := range []string{s.tokenFile, s.policyTokenFile} {
		token, err := os.ReadFile(file)
		must(s.T, err)
		// The part before the signature names the account; the signature makes it a token.
		signature := token[bytes.LastIndexByte(token, '.')+1:]
		if len(signature) == 0 || bytes.Contains(log, bytes.TrimSpace(signature)) || bytes.Contains(log, []byte("Bearer")) {
			s.Errorf("there is a token in %s", env.Controller.Log)
		}
	}
}

// holds replaces what the index holds of a namespace.
func (s *stage) holds(namespace string, replicas ...cacheserver.Replica) {
	for i := range replicas {
		replicas[i].Tenant = namespace
	}
	s.replicas[namespace] = replicas
	s.publish()
}

// counts replaces how much the index holds of a tenant; a tenant that is not in it has no row.
func (s *stage) counts(tenants map[string]int64) {
	s.tenants = tenants
	s.publish()
}

func (s *stage) publish() {
	var snapshot cacheserver.Snapshot
	for _, replicas := range s.replicas {
		snapshot.Replicas = append(snapshot.Replicas, replicas...)
	}
	for id, entries := range s.tenants {
		snapshot.Tenants = append(snapshot.Tenants, cacheserver.Tenant{ID: id, IndexEntries: entries})
	}
	s.server.SetSnapshot(snapshot)
}

// waitTicks waits until so many ticks have begun after now and ended.
func (s *stage) waitTicks(count int) {
	s.Helper()
	// The one that is under way does not count, and the last one has ended when another begins.
	s.waitRequests(cacheserver.SnapshotPath, s.server.Requests(cacheserver.SnapshotPath)+count+1)
}

func (s *stage) waitRequests(path string, count int) {
	s.Helper()
	eventually(s.T, fmt.Sprintf("there are %d requests for %s", count, path), func(context.Context) error {
		if got := s.server.Requests(path); got < count {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// series are those of the controller whose name begins so, about the backends of a namespace.
func (s *stage) series(name, namespace string) []string {
	s.Helper()
	response, err := http.Get("http://127.0.0.1:" + strconv.Itoa(env.Controller.MetricsPort) + "/metrics")
	must(s.T, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(s.T, err)
	var series []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) && strings.Contains(line, `"`+namespace+"/") {
			series = append(series, strings.TrimSpace(line))
		}
	}
	return series
}

// engine makes a pod that no node runs. It is not wired, as long as no backend selects it.
func engine(t *testing.T, namespace, name string, labels map[string]string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"example.com/no-such-node": ""},
			Containers:   []corev1.Container{{Name: "vllm", Image: "vllm"}},
		},
	}
	eventually(t, "the engine pod is there", func(ctx context.Context) error { // Its account may not be, yet.
		_, err := env.kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func selecting(labels map[string]string) change {
	return func(backend *v1alpha1.CacheBackend) {
		backend.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: labels}
	}
}

func withoutTier(backend *v1alpha1.CacheBackend) { backend.Spec.RemoteStorage = nil }

// newEngines is a namespace with pods that a selector of serve: atlas finds.
func newEngines(t *testing.T, pods ...string) (namespace string) {
	t.Helper()
	namespace = newNamespace(t)
	for _, pod := range pods {
		engine(t, namespace, pod, map[string]string{"serve": "atlas"})
	}
	return namespace
}

// backend makes a backend without a tier for the pods of newEngines.
func (s *stage) backend(namespace, name string, changes ...change) *subject {
	s.Helper()
	b := &subject{T: s.T, namespace: namespace, name: name}
	b.create(slices.Concat([]change{withoutTier, selecting(map[string]string{"serve": "atlas"})}, changes)...)
	return b
}

// waitParticipation waits until the participation of a backend is as described by a text, see describe.
func (s *subject) waitParticipation(want string) {
	s.Helper()
	eventually(s.T, "the participation of "+s.name+" is "+want, func(ctx context.Context) error {
		backend, err := s.backends().Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && describe(backend) != want {
			err = fmt.Errorf("it is %s", describe(backend))
		}
		return err
	})
}

func describe(backend *v1alpha1.CacheBackend) string {
	participation := backend.Status.IndexParticipation
	if participation == nil {
		return "unset"
	}
	text := strconv.FormatInt(participation.PrefixCount, 10)
	if at := participation.LastEventAt; at != nil {
		text += at.UTC().Format(" 15:04:05")
	}
	if participation.HitRate != nil {
		text += " hit rate " + *participation.HitRate
	}
	if participation.T2HitRate != nil {
		text += " t2 " + *participation.T2HitRate
	}
	return text
}
