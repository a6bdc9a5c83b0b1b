// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// engines are the labels of newEngine, and of the selector of selectsEngines.
var engines = map[string]string{"serve": "atlas"}

func selectsEngines(b *v1alpha1.CacheBackend) {
	b.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: engines}
}

func newEngine(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: engines, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "vllm", Image: "registry.test/serve/vllm:1", Args: []string{"serve"}}}},
	}
}

// newUnwatchedSubject is a subject in a namespace whose pods the webhook does not see: they are stored as they are written.
func newUnwatchedSubject(t *testing.T) *subject {
	t.Helper()
	namespace, err := env.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "unwatched-", Labels: map[string]string{"inferencecache.io/injection": "disabled"},
	}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = env.kube.CoreV1().Namespaces().Delete(context.Background(), namespace.Name, metav1.DeleteOptions{})
	})
	return &subject{T: t, namespace: namespace.Name, name: "cache"}
}

// createEngine creates a pod, as soon as the namespace has the account that pods run as.
func (s *subject) createEngine(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	eventually(s.T, "pods may be created", func(ctx context.Context) error {
		_, err := env.kube.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	created, err := env.kube.CoreV1().Pods(s.namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	must(s.T, err)
	return created
}

// marks are the annotations that the webhook writes on pods that it wires to the backend.
func (s *subject) marks() map[string]string {
	s.Helper()
	return map[string]string{
		v1alpha1.AnnotationInjectedBy:    s.namespace + "/" + s.name,
		v1alpha1.AnnotationInjectedByUID: string(s.backend().UID),
	}
}

// told returns what has been told about a pod.
func told(ctx context.Context, pod *corev1.Pod) ([]eventsv1.Event, error) {
	list, err := env.kube.EventsV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var events []eventsv1.Event
	for _, event := range list.Items {
		if event.ReportingController == "engine-pod-events" && event.Regarding.UID == pod.UID {
			events = append(events, event)
		}
	}
	return events, nil
}

// waitTold waits until something has been told about a pod, and returns that.
func waitTold(t *testing.T, pod *corev1.Pod) eventsv1.Event {
	t.Helper()
	var events []eventsv1.Event
	eventually(t, "there is news about pod "+pod.Name, func(ctx context.Context) (err error) {
		if events, err = told(ctx, pod); err == nil && len(events) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	if len(events) != 1 || events[0].Series != nil {
		t.Fatalf("about pod %s there is more than one event: %+v", pod.Name, events)
	}
	return events[0]
}

// expectSilence expects that nothing was told about pods that are older than one that was told about: there is one worker,
// and it takes them in their order.
func expectSilence(t *testing.T, pods map[string]*corev1.Pod) {
	t.Helper()
	for name, pod := range pods {
		events, err := told(t.Context(), pod)
		must(t, err)
		if len(events) != 0 {
			t.Errorf("%s: there are events %+v", name, events)
		}
	}
}

// waitDescribed waits until `kubectl describe` shows an event on a pod.
func (s *subject) waitDescribed(pod *corev1.Pod, reason, note string) {
	s.Helper()
	eventually(s.T, "kubectl describes pod "+pod.Name, func(ctx context.Context) error {
		out, _, err := env.Kubectl(ctx, "-n", s.namespace, "describe", "pod", pod.Name)
		if err != nil {
			return err
		}
		_, events, _ := strings.Cut(out, "\nEvents:")
		for line := range strings.Lines(events) {
			if strings.Contains(line, reason) && strings.Contains(line, note) && strings.Contains(line, "engine-pod-events") {
				return nil
			}
		}
		return errors.New(out)
	})
}

// TestWiredPodsAreTold: each pod of a Deployment says which backend it is wired to.
func TestWiredPodsAreTold(t *testing.T) {
	t.Parallel()
	s := create(t, hostOnly, selectsEngines)
	backend := s.backend()
	pod := newEngine("", nil)
	_, err := env.kube.AppsV1().Deployments(s.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "engine"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: engines},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	s.kubectl("rollout", "status", "deployment/engine", "--timeout=2m")
	pods, err := env.kube.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for i := range pods.Items {
		pod := &pods.Items[i]
		event := waitTold(t, pod)
		got := eventsv1.Event{
			Type: event.Type, Reason: event.Reason, Action: event.Action, Note: event.Note,
			Regarding: event.Regarding, Related: event.Related,
		}
		got.Regarding.ResourceVersion, got.Related.ResourceVersion = "", ""
		if diff := cmp.Diff(eventsv1.Event{
			Type: "Normal", Reason: "InjectedByCacheBackend", Action: "InjectedByCacheBackend",
			Note:      fmt.Sprintf("Wired to CacheBackend %q.", s.namespace+"/"+s.name),
			Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.namespace, Name: pod.Name, UID: pod.UID},
			Related: &corev1.ObjectReference{
				APIVersion: "inferencecache.io/v1alpha1", Kind: "CacheBackend", Namespace: s.namespace, Name: s.name, UID: backend.UID,
			},
		}, got); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		s.waitDescribed(pod, "InjectedByCacheBackend", event.Note)
	}
}

// TestSkippedPodsAreTold: a pod that asks to be left alone says so. Of pods that ask for nothing, or say no, there is no news.
func TestSkippedPodsAreTold(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	silent := map[string]*corev1.Pod{
		"unmatched":  s.createEngine(newEngine("unmatched", nil)),
		"a clear no": s.createEngine(newEngine("no", map[string]string{v1alpha1.AnnotationSkipInject: "off"})),
		"a copied mark": s.createEngine(newEngine("copied", map[string]string{
			v1alpha1.AnnotationInjectSkipped: v1alpha1.InjectSkippedByAnnotation,
		})),
	}
	skipped := s.createEngine(newEngine("skipped", map[string]string{v1alpha1.AnnotationSkipInject: "TICKET-7"}))
	event := waitTold(t, skipped)
	if event.Reason != "SkippedByOperator" || event.Related != nil || !strings.Contains(event.Note, "skip-inject-annotation") {
		t.Errorf("the event is %+v", event)
	}
	s.waitDescribed(skipped, "SkippedByOperator", event.Note)
	expectSilence(t, silent)
}

// TestForgedPodsAreNotTold: what is not true of a stored backend is not told, where nobody has kept it from being written.
func TestForgedPodsAreNotTold(t *testing.T) {
	t.Parallel()
	s := newUnwatchedSubject(t)
	s.create(hostOnly)
	uid := string(s.backend().UID)
	forged := func(name, injectedBy, uid string) *corev1.Pod {
		return s.createEngine(newEngine(name, map[string]string{
			v1alpha1.AnnotationInjectedBy: injectedBy, v1alpha1.AnnotationInjectedByUID: uid,
		}))
	}
	late := s.createEngine(newEngine("late", nil))
	s.kubectl("annotate", "pod", late.Name,
		v1alpha1.AnnotationInjectedBy+"="+s.namespace+"/"+s.name, v1alpha1.AnnotationInjectedByUID+"="+uid)
	silent := map[string]*corev1.Pod{
		"annotated later":  late,
		"another uid":      forged("another-uid", s.namespace+"/"+s.name, "00000000-0000-0000-0000-000000000000"),
		"no uid":           forged("no-uid", s.namespace+"/"+s.name, ""),
		"no such backend":  forged("no-backend", s.namespace+"/missing", uid),
		"no namespace":     forged("no-namespace", s.name, uid),
		"two slashes":      forged("two-slashes", s.namespace+"/"+s.name+"/x", uid),
		"mark, no opt-out": s.createEngine(newEngine("mark", map[string]string{v1alpha1.AnnotationInjectSkipped: v1alpha1.InjectSkippedByAnnotation})),
		"opt-out, no mark": s.createEngine(newEngine("opt-out", map[string]string{v1alpha1.AnnotationSkipInject: "true"})),
	}
	// Nobody can tell these marks from the webhook's own.
	if event := waitTold(t, s.createEngine(newEngine("consistent", s.marks()))); event.Reason != "InjectedByCacheBackend" {
		t.Errorf("the event is %+v", event)
	}
	expectSilence(t, silent)
}

// TestRestartTellsNothingTwice: a controller that starts is told of all pods, tells what has been missed, and nothing again.
// It restarts the controller, and must not run beside other tests.
func TestRestartTellsNothingTwice(t *testing.T) {
	s := create(t, hostOnly, selectsEngines)
	wired := s.createEngine(newEngine("wired", nil))
	skipped := s.createEngine(newEngine("skipped", map[string]string{v1alpha1.AnnotationSkipInject: "true"}))
	before := []eventsv1.Event{waitTold(t, wired), waitTold(t, skipped)}

	must(t, env.stopController())
	missed := s.createEngine(newEngine("missed", nil))
	offset, err := auditEnd()
	must(t, err)
	must(t, env.startController(t.Context()))
	waitTold(t, missed)
	eventually(t, "the controller has met its own events", func(context.Context) error {
		requests, err := audited(offset)
		met := 0
		for _, r := range requests {
			if r.Verb == "create" && r.ObjectRef.Resource == "events" && r.ObjectRef.Namespace == s.namespace && r.ResponseStatus.Code == 409 {
				met++
			}
		}
		if err == nil && met < len(before) {
			err = fmt.Errorf("it has met %d", met)
		}
		return err
	})
	if diff := cmp.Diff(before, []eventsv1.Event{waitTold(t, wired), waitTold(t, skipped)}); diff != "" {
		t.Errorf("events (-before +after):\n%s", diff)
	}
	s.removePods()
}

// TestNewsWaitForTheServer: what cannot be looked up at the moment is told later. It stops our API server, and must not run
// beside other tests.
func TestNewsWaitForTheServer(t *testing.T) {
	s := newUnwatchedSubject(t)
	s.create(hostOnly)
	marks := s.marks()
	must(t, env.StopAPIServer())
	offset, err := auditEnd()
	must(t, err)
	pod := s.createEngine(newEngine("wired", marks))
	eventually(t, "the controller has asked in vain", func(context.Context) error {
		requests, err := audited(offset)
		for _, r := range requests {
			if r.Verb == "get" && r.ObjectRef.Resource == "cachebackends" && r.ObjectRef.Name == s.name && r.ResponseStatus.Code >= 500 {
				return nil
			}
		}
		return errors.Join(err, errors.New("it has not"))
	})
	expectSilence(t, map[string]*corev1.Pod{"while the server is away": pod})
	must(t, env.StartAPIServer())
	must(t, env.WaitAPIServerReady(t.Context()))
	waitTold(t, pod)
	s.removePods()
}

// removePods leaves no pod behind that a controller which starts in another test would tell about.
func (s *subject) removePods() {
	s.Helper()
	must(s.T, env.kube.CoreV1().Pods(s.namespace).DeleteCollection(s.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{}))
	eventually(s.T, "the pods are gone", func(ctx context.Context) error {
		pods, err := env.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) != 0 {
			err = fmt.Errorf("%d are left", len(pods.Items))
		}
		return err
	})
}
