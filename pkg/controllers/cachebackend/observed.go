// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cachebackend

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/adapters/storage"
)

// Observation is all that one pass reads besides the backend itself. Whatever could not be
// read must not look like something that was read and found absent: a read that fails is
// either an error of the pass or has a flag here whose zero value means unknown.
type Observation struct {
	// Applied is how the writes to the backend's own objects ended. Managed only.
	Applied Applied
	// Replicas says how many replicas the workload is to have. Managed only.
	Replicas storage.Replicas
	// Workload is the live workload of spec.deploymentKind, read after the writes. Managed
	// only.
	Workload Workload
	// Endpoint is the address of the live Service, empty when there is none that this
	// backend controls. Managed only.
	Endpoint string
	// Engines is what spec.engineSelector finds in the namespace.
	Engines Engines
	// Wired is about the pods that the webhook has wired to this backend. Managed and
	// HostOnly only.
	Wired Wired
	// Probe is about the functional probe. Managed only.
	Probe Probe
	// Restart is about the restart of engines. Managed only.
	Restart Restart
}

// Applied is how the writes to a backend's own objects ended.
type Applied struct {
	// Err is the first error; another pass may cure it.
	Err error
	// Refused is an object that has the backend's name and is somebody else's, so that it
	// was left alone. No retry cures that.
	Refused *Refusal
}

// Refusal names an object of the backend's namespace that is not the backend's.
type Refusal struct {
	Kind string
	Name string
	// Going says that the object is being deleted.
	Going bool
}

// Workload is a Deployment or a StatefulSet in a form that both have.
type Workload struct {
	// Exists is false when there is no object of the kind with the backend's name; all
	// else is meaningless then.
	Exists bool
	// Controlled says whether the object's controller is this backend.
	Controlled bool

	Generation         int64
	ObservedGeneration int64

	// DesiredReplicas is spec.replicas, the autoscaler's while there is one.
	DesiredReplicas   int32
	Replicas          int32
	UpdatedReplicas   int32
	AvailableReplicas int32
	ReadyReplicas     int32

	// Progressing is a Deployment's own condition, nil while it has none.
	Progressing *Progress
	// CurrentRevision and UpdateRevision are those of a StatefulSet.
	CurrentRevision string
	UpdateRevision  string
	// SpecChangedAt is when a StatefulSet's spec was last changed, zero when unknown. It
	// has no deadline of its own that one could ask for instead.
	SpecChangedAt time.Time
	// Deadline is how long pods may take to become available.
	Deadline time.Duration

	// PodsListed says that UnreadyPods was read and is not ahead of the numbers above.
	PodsListed bool
	// UnreadyPods are the workload's pods that are not Ready and not being deleted.
	UnreadyPods []UnreadyPod
}

// Progress is a Deployment's Progressing condition.
type Progress struct {
	Status corev1.ConditionStatus
	Reason string
}

// UnreadyPod is a pod that is not Ready.
type UnreadyPod struct {
	CreatedAt time.Time
	// WasReady says that the pod has been Ready before, so that it is broken rather than
	// starting.
	WasReady bool
}

// Engines is what spec.engineSelector finds. All of it is meaningless without a selector.
type Engines struct {
	// PodsListed says that the pods of the namespace could be listed.
	PodsListed bool
	// Pods is the number of pods that are selected, in every phase.
	Pods int32
	// LivePods is how many of them are neither Succeeded nor Failed.
	LivePods int32

	// DeploymentsListed says that the Deployments of the namespace could be listed.
	DeploymentsListed bool
	// Deployments is the number of Deployments whose pod template is selected.
	Deployments int32
	// DesiredReplicas is how many replicas these Deployments ask for together.
	DesiredReplicas int32
}

// Wired is about the pods that the webhook has wired to a backend.
type Wired struct {
	// Listed says that the pods of the namespace could be listed.
	Listed bool
	// Kernels are the kernel checks of those that the backend still selects.
	Kernels []KernelCheck
	// CrashLooping are those whose engine keeps crashing, selected or not, by name.
	CrashLooping []CrashLoop
}

// Restart is what became of the engines of servers that may have been replaced.
type Restart struct {
	// Known says that the servers could be read.
	Known bool
	// ServerInstance names the servers that engines are known to be connected to.
	ServerInstance string
	// Wait is how long a restart that is due has to wait, zero when none is.
	Wait time.Duration
}
