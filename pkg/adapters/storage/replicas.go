// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

// Replicas says how many replicas a workload gets. While autoscaling is on the number is
// the autoscaler's, and only its lower bound is enforced.
type Replicas struct {
	count      int32
	floor      int32
	autoscaled bool
	singleton  bool
}

func newReplicas(request Request, singleton bool) Replicas {
	replicas := Replicas{count: orOne(request.Replicas), singleton: singleton}
	if request.Autoscaling != nil {
		replicas.autoscaled = true
		replicas.floor = orOne(request.Autoscaling.MinReplicas)
	}
	return replicas
}

// OnCreate is the number for a workload that does not exist yet.
func (r Replicas) OnCreate() int32 {
	if r.autoscaled {
		return r.clamp(r.floor)
	}
	return r.clamp(r.count)
}

// OnUpdate is the number for a workload that has the live one.
func (r Replicas) OnUpdate(live *int32) int32 {
	if r.autoscaled {
		return r.clamp(max(orOne(live), r.floor))
	}
	return r.clamp(r.count)
}

// Want is the number that readiness is judged against. The live one is read after the
// workload was written.
func (r Replicas) Want(live *int32) int32 {
	if r.autoscaled {
		return r.clamp(orOne(live))
	}
	return r.clamp(r.count)
}

// clamp keeps a tier that must not be doubled from being so. It may still be off.
func (r Replicas) clamp(count int32) int32 {
	if r.singleton {
		return min(count, 1)
	}
	return count
}

// orOne is the API server's default of replicas.
func orOne(count *int32) int32 {
	if count == nil {
		return 1
	}
	return *count
}
