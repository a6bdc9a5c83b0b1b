// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
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

// frontProxy is the health check that the authority of the cluster's front proxy is known.
// It comes from the cluster a moment after the server has begun to listen, and until then
// nobody's identity can be told.
type frontProxy struct {
	ca dynamiccertificates.CAContentProvider
}

func (frontProxy) Name() string {
	return "front-proxy"
}

func (f frontProxy) Check(*http.Request) error {
	if len(f.ca.CurrentCABundleContent()) == 0 {
		return errors.New("the authority of the cluster's front proxy is not known yet")
	}
	return nil
}

// wrap answers 503, after which clients try again, where the handler would answer 401, at
// which they give up.
func (f frontProxy) wrap(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := f.Check(req); err != nil && !healthPaths.Has(req.URL.Path) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, req)
	})
}

// waitForFrontProxy puts the check before all that the server does. A server that was told
// not to look its authorities up in the cluster has nothing to wait for.
func waitForFrontProxy(generic *genericapiserver.RecommendedConfig) {
	if generic.Authentication.RequestHeaderConfig == nil {
		return
	}
	known := frontProxy{ca: generic.Authentication.RequestHeaderConfig.CAContentProvider}
	generic.AddReadyzChecks(known)
	build := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		return known.wrap(build(handler, config))
	}
}
