// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	webhookName = "mpod.inferencecache.io"
	// requestTimeout is above all that kube-apiserver waits for on the way of one pod.
	requestTimeout = time.Minute
)

// mode says whether a pod is to stay.
type mode string

const (
	dryRun  mode = metav1.DryRunAll
	forReal mode = ""
)

// creation is what is known about the creation of a pod.
type creation struct {
	pod      *corev1.Pod
	warnings []string
	// audit are the annotations of the request in kube-apiserver's audit log.
	audit map[string]string
	took  time.Duration
}

// outcome, reason and message are what the webhook has left in the audit log; empty if it gave no answer.
func (c creation) outcome() string { return c.audit[webhookName+"/outcome"] }
func (c creation) reason() string  { return c.audit[webhookName+"/reason"] }
func (c creation) message() string { return c.audit[webhookName+"/message"] }

// mutated says whether a webhook changed the pod.
func (c creation) mutated(webhook string) bool { return c.changes(webhook) > 0 }

// changes counts the calls in which a webhook changed the pod.
func (c creation) changes(webhook string) int {
	changes := 0
	for _, call := range c.mutations() {
		if call.Webhook == webhook && call.Mutated {
			changes++
		}
	}
	return changes
}

// calls counts the calls of a webhook, by the name of its configuration.
func (c creation) calls(webhook string) map[string]int {
	calls := map[string]int{}
	for _, call := range c.mutations() {
		if call.Webhook == webhook {
			calls[call.Configuration]++
		}
	}
	return calls
}

// mutation is the trace of one call of a mutating webhook in the audit log.
type mutation struct {
	Configuration, Webhook string
	Mutated                bool
}

func (c creation) mutations() []mutation {
	var all []mutation
	for key, value := range c.audit {
		var call mutation
		if strings.HasPrefix(key, "mutation.webhook.admission.k8s.io/") && json.Unmarshal([]byte(value), &call) == nil {
			all = append(all, call)
		}
	}
	return all
}

// failedOpen says whether kube-apiserver gave up a webhook and went on without.
func (c creation) failedOpen(webhook string) bool {
	for key, value := range c.audit {
		if strings.HasPrefix(key, "failed-open.mutation.webhook.admission.k8s.io/") && value == webhook {
			return true
		}
	}
	return false
}

// create creates a pod. One that stays is removed with the test.
func create(t testing.TB, pod *corev1.Pod, m mode) creation {
	t.Helper()
	c, err := tryCreate(t.Context(), pod, m)
	if err != nil {
		t.Fatal(err)
	}
	if m == forReal {
		t.Cleanup(func() { removePod(t, c.pod) })
	}
	return c
}

// createDecided is create where the webhook is in order. On a machine that is busy with other things it may miss its
// deadlines all the same; the pod is then created again.
func createDecided(t testing.TB, pod *corev1.Pod, m mode) creation {
	t.Helper()
	var c creation
	eventually(t, "the webhook decides about pod "+pod.Name, func(ctx context.Context) error {
		var err error
		if c, err = tryCreate(ctx, pod, m); err != nil {
			t.Fatal(err)
		}
		if !c.failedOpen(webhookName) && c.reason() != "lookup-failed" {
			return nil
		}
		if m == forReal {
			removePod(t, c.pod)
		}
		return fmt.Errorf("audit %v", c.audit)
	})
	if m == forReal {
		t.Cleanup(func() { removePod(t, c.pod) })
	}
	return c
}

func tryCreate(ctx context.Context, pod *corev1.Pod, m mode) (creation, error) {
	var c creation
	log, err := openAudit()
	if err != nil {
		return c, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id := string(uuid.NewUUID())
	var options metav1.CreateOptions
	if m != forReal {
		options.DryRun = []string{string(m)}
	}
	begun := time.Now()
	result := env.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).
		SetHeader("Audit-ID", id).VersionedParams(&options, scheme.ParameterCodec).Body(pod).Do(ctx)
	c.took = time.Since(begun)
	c.pod = &corev1.Pod{}
	if err := result.Into(c.pod); err != nil {
		return c, fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	for _, warning := range result.Warnings() {
		c.warnings = append(c.warnings, warning.Text)
	}
	c.audit, err = log.annotations(ctx, id)
	return c, err
}

// audit is kube-apiserver's audit log, from its end at some moment on.
type audit struct {
	*os.File
}

func openAudit() (audit, error) {
	log, err := os.Open(filepath.Join(env.Dir, "logs", "audit.log"))
	if err == nil {
		_, err = log.Seek(0, io.SeekEnd)
	}
	return audit{log}, err
}

// annotations waits for the event of a request, which may be written after its answer.
func (a audit) annotations(ctx context.Context, id string) (map[string]string, error) {
	start, err := a.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	var event struct {
		Annotations map[string]string `json:"annotations"`
	}
	err = wait.PollUntilContextTimeout(ctx, interval, patience, true, func(context.Context) (bool, error) {
		if _, err := a.Seek(start, io.SeekStart); err != nil {
			return false, err
		}
		lines := bufio.NewReader(a)
		for {
			line, err := lines.ReadString('\n')
			if errors.Is(err, io.EOF) { // The last line may be half written.
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if strings.Contains(line, `"auditID":"`+id+`"`) {
				return true, json.Unmarshal([]byte(line), &event)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading the audit event of request %s: %w", id, err)
	}
	return event.Annotations, nil
}

func removePod(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	// The context of a test has ended by the time of its cleanup.
	err := env.kube.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, *metav1.NewDeleteOptions(0))
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
