// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"strings"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// Verdict is what can be said about an external endpoint without dialling it.
type Verdict struct {
	// Endpoint is the endpoint without white space around it.
	Endpoint string
	// Ready says whether engines can be wired to the endpoint.
	Ready bool
	// Reason and Message are those of the conditions that publish the verdict.
	Reason  string
	Message string
}

// JudgeExternal judges the endpoint of an external tier. It is a function of the spec
// alone, so that the API server can publish the verdict in the write that it is about.
func JudgeExternal(provider v1alpha1.StorageProvider, endpoint string) Verdict {
	verdict := Verdict{Endpoint: strings.TrimSpace(endpoint)}
	_, err := ParseEndpoint(provider, verdict.Endpoint)
	switch {
	case err == nil:
		verdict.Ready = true
		verdict.Reason = v1alpha1.ReasonExternalEndpointAccepted
		verdict.Message = fmt.Sprintf("The endpoint is well-formed for %s; whether it can be reached is not checked.", provider)
	case errors.Is(err, ErrEndpointMissing):
		verdict.Reason = v1alpha1.ReasonExternalEndpointMissing
		verdict.Message = "spec.remoteStorage.endpoint " + err.Error() + "."
	default:
		verdict.Reason = v1alpha1.ReasonExternalEndpointInvalid
		verdict.Message = "spec.remoteStorage.endpoint " + err.Error() + "."
	}
	return verdict
}
