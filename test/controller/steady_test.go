// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// steady says how many backends are watched for how long at rest. That is longer than the time after which pods are looked
// at again.
func steady() (backends int, quiet time.Duration) {
	if long() {
		return 50, 3 * time.Minute
	}
	return 20, 35 * time.Second
}

// long says that the long forms of the tests are wanted.
func long() bool { return os.Getenv("SOAK") != "" }

// TestSteadyState: when nothing happens nothing is written, and a controller that starts finds nothing to do. It must
// not run beside other tests.
func TestSteadyState(t *testing.T) {
	namespace := newNamespace(t)
	shapes := []change{
		func(*v1alpha1.CacheBackend) {},
		provider(v1alpha1.StorageProviderRedis),
		deploymentKind(v1alpha1.DeploymentKindStatefulSet),
		autoscaled(1, 3),
		func(b *v1alpha1.CacheBackend) { b.Spec.RemoteStorage = nil },
	}
	count, quiet := steady()
	backends := env.inference.InferencecacheV1alpha1().CacheBackends(namespace)
	for i := range count {
		backend := newBackend(namespace, fmt.Sprintf("cache-%d", i), shapes[i%len(shapes)], func(b *v1alpha1.CacheBackend) {
			b.Spec.EngineSelector = &v1alpha1.EngineSelector{MatchLabels: map[string]string{"serve": b.Name}}
			if i == 0 {
				selectsEngines(b)
			}
		})
		_, err := backends.Create(t.Context(), backend, metav1.CreateOptions{})
		must(t, err)
	}
	eventually(t, "all backends are ready", func(ctx context.Context) error {
		list, err := backends.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, backend := range list.Items {
			if !apimeta.IsStatusConditionTrue(backend.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Errorf("%s: %+v", backend.Name, backend.Status.Conditions)
			}
		}
		return nil
	})
	// One has an engine of which there is something to say.
	s := &subject{T: t, namespace: namespace, name: "cache-0"}
	s.runEngine(map[string]string{"fake.inferencecache.io/crash-loop.vllm": "true"})
	s.touch()
	s.waitCondition(v1alpha1.ConditionEngineCompatibility, "False/InjectedEngineCrashLooping")
	s.waitCondition(v1alpha1.ConditionEngineKernelsHealthy, "")
	expectNoWrites(t, "at rest", waitQuiet(t), quiet)

	// A controller that starts asks for the events on engine pods again, to no effect.
	s.kubectl("delete", "deployment", "engine")
	s.waitCondition(v1alpha1.ConditionEngineCompatibility, "")
	waitQuiet(t)
	must(t, env.stopController())
	offset, err := auditEnd()
	must(t, err)
	must(t, env.startController(t.Context()))
	expectNoWrites(t, "after a start", offset, quiet)
	requests, err := audited(offset)
	must(t, err)
	if !slices.ContainsFunc(requests, func(r request) bool { return r.ObjectRef.Resource == "pods" }) {
		t.Error("the controller has not looked at any backend since its start")
	}
}

// waitQuiet waits until the controller has not written for a few seconds, and returns the end of the audit log.
func waitQuiet(t *testing.T) int64 {
	t.Helper()
	var offset int64
	eventually(t, "the controller has done its work", func(context.Context) error {
		var err error
		if offset, err = auditEnd(); err != nil {
			return err
		}
		time.Sleep(5 * time.Second)
		written, err := writes(offset)
		if err == nil && len(written) != 0 {
			err = fmt.Errorf("it has written %v", written)
		}
		return err
	})
	return offset
}

func expectNoWrites(t *testing.T, when string, offset int64, quiet time.Duration) {
	t.Helper()
	time.Sleep(quiet)
	written, err := writes(offset)
	must(t, err)
	if len(written) != 0 {
		t.Errorf("%d writes %s:", len(written), when)
		for _, request := range written {
			t.Error(request)
		}
	}
}

// TestOutage: while our API server is away nothing is shed, and what is lost comes back. It stops the server, and must not
// run beside other tests.
func TestOutage(t *testing.T) {
	s := create(t)
	s.waitBackendReady()
	before := s.object("Deployment").GetUID()
	must(t, env.StopAPIServer())
	s.kubectl("delete", "deployment", s.name)
	eventually(t, "there is another Deployment", func(ctx context.Context) error {
		deployment, err := s.read(ctx, "Deployment")
		if err == nil && deployment.GetUID() == before {
			err = errors.New("it is still the one before")
		}
		return err
	})
	service := s.object("Service").GetUID()
	must(t, env.StartAPIServer())
	must(t, env.WaitAPIServerReady(t.Context()))
	s.edit(func(b *v1alpha1.CacheBackend) { b.Spec.Replicas = new(int32(2)) })
	s.waitReplicas(2)
	s.waitBackendReady()
	if s.object("Service").GetUID() != service {
		t.Error("the Service was replaced")
	}
}
