// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package enginepod

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestCreated: of all that happens to pods, creations of candidates alone are worth a look.
func TestCreated(t *testing.T) {
	t.Parallel()
	pod := func(uid types.UID, annotations map[string]string) client.Object {
		p := podNamed("engine-0", uid)
		p.Annotations = annotations
		return p
	}
	wired := injected("ml/cache.eu", "U1")
	passes := created()
	for name, tt := range map[string]struct{ got, want bool }{
		"created":             {passes.Create(event.CreateEvent{Object: pod("P1", wired)}), true},
		"at the start":        {passes.Create(event.CreateEvent{Object: pod("P1", wired), IsInInitialList: true}), true},
		"foreign":             {passes.Create(event.CreateEvent{Object: pod("P1", nil)}), false},
		"changed":             {passes.Update(event.UpdateEvent{ObjectOld: pod("P1", wired), ObjectNew: pod("P1", wired)}), false},
		"annotated later":     {passes.Update(event.UpdateEvent{ObjectOld: pod("P1", nil), ObjectNew: pod("P1", wired)}), false},
		"replaced":            {passes.Update(event.UpdateEvent{ObjectOld: pod("P1", wired), ObjectNew: pod("P2", wired)}), true},
		"replaced by another": {passes.Update(event.UpdateEvent{ObjectOld: pod("P1", wired), ObjectNew: pod("P2", nil)}), false},
		"deleted":             {passes.Delete(event.DeleteEvent{Object: pod("P1", wired)}), false},
		"generic":             {passes.Generic(event.GenericEvent{Object: pod("P1", wired)}), false},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: passes: %t", name, tt.got)
		}
	}
}
