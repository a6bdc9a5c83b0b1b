// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import "strings"

// ServiceNamespace returns the namespace of the Service that an endpoint names, whether
// or not the endpoint is well-formed otherwise: a broken endpoint must not be a way around
// a tenancy rule. It knows a Service, or a pod behind one, by the suffix .svc or
// .svc.cluster.local alone. Addresses, short names and other domains have no namespace.
func ServiceNamespace(text string) (string, bool) {
	host := strings.ToLower(strings.TrimSpace(text))
	if _, after, found := strings.Cut(host, schemeSeparator); found {
		host = after
	}
	if i := strings.IndexAny(host, "/?"); i >= 0 {
		host = host[:i]
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], ".") {
		host = host[:i]
	}
	host = strings.TrimSuffix(host, ".")
	host = strings.TrimSuffix(host, ".cluster.local")
	name, found := strings.CutSuffix(host, ".svc")
	if !found {
		return "", false
	}
	i := strings.LastIndexByte(name, '.')
	if i < 0 || i == len(name)-1 {
		return "", false
	}
	return name[i+1:], true
}
