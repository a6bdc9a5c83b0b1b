// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pod decides at the creation of a Pod whether it is an engine of a CacheBackend,
// and wires it if it is. Whatever goes wrong, the pod is admitted.
package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// Outcome is what became of a pod.
type Outcome string

const (
	// Wired pods carry the wiring of a backend.
	Wired Outcome = "wired"
	// Unwired pods are admitted without; the reason says why.
	Unwired Outcome = "unwired"
	// Skipped pods asked to be left alone.
	Skipped Outcome = "skipped"
)

// Reason is the category of an outcome, a value of the metrics' label.
type Reason string

const (
	// ReasonWired is the reason of wired pods.
	ReasonWired Reason = "wired"
	// ReasonSkipped is the reason of skipped pods.
	ReasonSkipped Reason = "skipped"
	// ReasonDecodeFailed means that the object is not a readable Pod.
	ReasonDecodeFailed Reason = "decode-failed"
	// ReasonLookupFailed means that the backends could not be read.
	ReasonLookupFailed Reason = "lookup-failed"
	// ReasonNoMatch means that no backend selects the pod.
	ReasonNoMatch Reason = "no-match"
	// ReasonNoAdapter means that the backend's pair of runtime and type is not supported.
	ReasonNoAdapter Reason = "no-adapter"
	// ReasonUnsupportedProvider means that the backend's provider is not known.
	ReasonUnsupportedProvider Reason = "unsupported-provider"
	// ReasonBindingUnsupported means that the engine does not speak to the provider.
	ReasonBindingUnsupported Reason = "binding-unsupported"
	// ReasonEndpointMissing means that the remote tier has no usable address.
	ReasonEndpointMissing Reason = "endpoint-missing"
	// ReasonAdapterRejected means that the pod cannot take the wiring.
	ReasonAdapterRejected Reason = "adapter-rejected"
	// ReasonEventsOnlyUnwired means that there was no subscriber to add.
	ReasonEventsOnlyUnwired Reason = "events-only-unwired"
	// ReasonEncodeFailed means that the result could not be written.
	ReasonEncodeFailed Reason = "encode-failed"
)

// Decision is the outcome for one pod.
type Decision struct {
	Outcome Outcome
	Reason  Reason
	// Message is the reason in words.
	Message string
	// Backend is the chosen backend as namespace/name, empty if none was.
	Backend string
	// Pod is the pod as it should become. It is the pod as received when nothing changes.
	Pod *corev1.Pod
	// Warnings are for whoever creates the pod.
	Warnings []string
}

// failedOpen says whether the pod was to be wired, or could have been, and was not.
func (d *Decision) failedOpen() bool {
	return d.Outcome == Unwired && d.Reason != ReasonNoMatch
}
