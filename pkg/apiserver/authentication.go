// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// healthPaths are what a kubelet asks for, without credentials.
var healthPaths = sets.New("/livez", "/readyz", "/healthz")

// anonymousHealth turns anonymous requests away, except those for the health paths. The
// delegating authenticator lets everybody in as anonymous and leaves the rest to
// authorization, which the cluster may have opened for its own discovery.
type anonymousHealth struct {
	authenticator.Request
}

func (a anonymousHealth) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := a.Request.AuthenticateRequest(req)
	if ok && response.User.GetName() == user.Anonymous && !healthPaths.Has(req.URL.Path) {
		return nil, false, nil
	}
	return response, ok, err
}
