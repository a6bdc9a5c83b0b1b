// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/test/cacheserver"
)

// TestPolicyPush restarts the controller, and must not run beside other tests. Nothing is pushed on the tick, so that each
// push has another reason.
func TestPolicyPush(t *testing.T) {
	s := newStage(t, "--cachepolicy-push-interval=1h")
	s.waitPushed(`{"version":7,"policies":[]}`) // At the start, although there is nothing to say.

	namespace := newNamespace(t)
	policies := env.inference.InferencecacheV1alpha1().CachePolicies(namespace)
	policy, err := policies.Create(t.Context(), &v1alpha1.CachePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p1"},
		Spec: v1alpha1.CachePolicySpec{
			EvictionTTL: &metav1.Duration{Duration: 15 * time.Minute}, Eviction: v1alpha1.EvictionPolicyLFU,
			RoutingFloorScore: new("0"), AffinityRouting: new(v1alpha1.AffinityRoutingDisabled), MinimumMatchedTokens: new(int32(0)),
		},
	}, metav1.CreateOptions{})
	must(t, err)
	const entry = `{"namespace":"%s","evictionTTL":900000000000,"routingFloorScore":0,"eviction":"lfu","affinityRouting":false}`
	s.waitPushed(fmt.Sprintf(`{"version":7,"policies":[`+entry+`]}`, namespace))

	tenant := createTenant(t, namespace, "t", "T", new(int64(0)))
	createTenant(t, namespace, "u", "U", nil)
	const both = `{"version":7,"policies":[` + entry + `],"tenants":[{"tenantID":"T","maxIndexEntries":%d,"isolationMode":"Fairness"}]}`
	s.waitPushed(fmt.Sprintf(both, namespace, 0))
	tenant = waitTenant(t, tenant, "0 True/Observed False/WithinBudget")
	tenant.Spec.Quota.MaxIndexEntries = new(int64(250000))
	_, err = env.inference.InferencecacheV1alpha1().CacheTenants(namespace).Update(t.Context(), tenant, metav1.UpdateOptions{})
	must(t, err)
	s.waitPushed(fmt.Sprintf(both, namespace, 250000))

	// A server of old is told again and again, and in the log it is told once.
	s.server.SetBehavior(cacheserver.PolicyPath, cacheserver.Answer(400, `unknown field "affinityRouting"`))
	must(t, env.inference.InferencecacheV1alpha1().CacheTenants(namespace).Delete(t.Context(), tenant.Name, metav1.DeleteOptions{}))
	s.waitRequests(cacheserver.PolicyPath, s.server.Requests(cacheserver.PolicyPath)+3)
	if told := s.logged("unknown field"); told != 1 {
		t.Errorf("the refusal is logged %d times", told)
	}
	s.server.SetBehavior(cacheserver.PolicyPath, nil)
	s.waitPushed(fmt.Sprintf(`{"version":7,"policies":[`+entry+`]}`, namespace))

	s.testNewerStateWins()

	if got, err := policies.Get(t.Context(), policy.Name, metav1.GetOptions{}); err != nil || got.ResourceVersion != policy.ResourceVersion {
		t.Errorf("the policy was written: %+v, %v", got, err)
	}
	must(t, policies.Delete(t.Context(), policy.Name, metav1.DeleteOptions{}))
	s.waitPushed(`{"version":7,"policies":[]}`)
}

// waitPushed waits until the last state that the server has taken is this one, to the byte.
func (s *stage) waitPushed(want string) {
	s.Helper()
	eventually(s.T, "the server follows "+want, func(context.Context) error {
		pushed := s.server.Policies()
		if len(pushed) == 0 {
			return errors.New("it follows nothing")
		}
		if got := strings.TrimSpace(string(pushed[len(pushed)-1].Raw)); got != want {
			return fmt.Errorf("it follows %s", got)
		}
		return nil
	})
}

// testNewerStateWins: what changes while a push is under way is in the next one, and no older state comes after it.
func (s *stage) testNewerStateWins() {
	released := make(chan struct{})
	s.server.SetBehavior(cacheserver.PolicyPath, cacheserver.HoldUntil(released))
	arrived, accepted := s.server.Requests(cacheserver.PolicyPath), len(s.server.Policies())
	namespace := newNamespace(s.T)
	createTenant(s.T, namespace, "first", "first", new(int64(1)))
	s.waitRequests(cacheserver.PolicyPath, arrived+1)
	const count = 20
	for i := range count {
		createTenant(s.T, namespace, fmt.Sprintf("t%d", i), fmt.Sprintf("t%d", i), new(int64(1)))
	}
	s.server.SetBehavior(cacheserver.PolicyPath, nil)
	close(released)
	eventually(s.T, "the server knows all quotas", func(context.Context) error {
		pushed := s.server.Policies()
		if last := pushed[len(pushed)-1]; len(last.Tenants) != count+1 {
			return fmt.Errorf("it knows %d", len(last.Tenants))
		}
		return nil
	})
	// Of the many changes meanwhile each may have its push, but each is told no less than the one before.
	pushed := s.server.Policies()[accepted:]
	for i := 1; i < len(pushed); i++ {
		if len(pushed[i].Tenants) < len(pushed[i-1].Tenants) {
			s.Errorf("after %d quotas came a state with %d", len(pushed[i-1].Tenants), len(pushed[i].Tenants))
		}
	}
	if len(pushed) > count/2 {
		s.Errorf("%d changes at once became %d pushes", count, len(pushed))
	}
	tenants := env.inference.InferencecacheV1alpha1().CacheTenants(namespace)
	must(s.T, tenants.DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	eventually(s.T, "the quotas are lifted", func(context.Context) error {
		pushed := s.server.Policies()
		if last := pushed[len(pushed)-1]; len(last.Tenants) != 0 {
			return fmt.Errorf("there are %d", len(last.Tenants))
		}
		return nil
	})
}

// TestPolicyTick: a server that was started anew is told all without any event. It restarts the controller, and must not run
// beside other tests.
func TestPolicyTick(t *testing.T) {
	s := newStage(t, "--cachepolicy-push-interval=500ms")
	s.waitRequests(cacheserver.PolicyPath, 3)
	must(t, s.server.Stop())
	s.waitLogged("Could not push policies")
	accepted := len(s.server.Policies())
	must(t, s.server.Start())
	eventually(t, "the server is told again", func(context.Context) error {
		if got := len(s.server.Policies()); got == accepted {
			return errors.New("it is not")
		}
		return nil
	})
	s.waitRequests(cacheserver.PolicyPath, s.server.Requests(cacheserver.PolicyPath)+2)
	if told := s.logged("Policies are pushed"); told != 2 {
		t.Errorf("the success is logged %d times", told)
	}
}
