// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/adapters/binding"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// validateEndpointPresence asks for an endpoint where nobody else can know it and refuses
// one where the control plane does.
func validateEndpointPresence(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.RemoteStorage == nil {
		return nil
	}
	fldPath := spec.Child("remoteStorage", "endpoint")
	endpoint := c.spec.RemoteStorage.Endpoint
	blank := strings.TrimSpace(endpoint) == ""
	switch {
	case c.managed() && !blank:
		err := field.Forbidden(fldPath,
			fmt.Sprintf("%q would be ignored: the address of a managed tier is published in the status; remove it", brief(endpoint)))
		err.BadValue = abbreviated(endpoint)
		return field.ErrorList{err}
	case c.external() && blank:
		return field.ErrorList{field.Required(fldPath, "an external tier needs its address; set it to host:port")}
	}
	return nil
}

func validateEndpointShape(c *candidate, spec *field.Path) field.ErrorList {
	if !c.external() || c.provider == "" {
		return nil
	}
	endpoint := c.spec.RemoteStorage.Endpoint
	if strings.TrimSpace(endpoint) == "" {
		return nil
	}
	if _, err := binding.ParseEndpoint(c.provider, endpoint); err != nil {
		return field.ErrorList{field.Invalid(spec.Child("remoteStorage", "endpoint"), abbreviated(endpoint), err.Error())}
	}
	return nil
}

// validateEndpointNamespace guards the border between namespaces. It does so for endpoints
// that have other faults too, so that repairing those cannot hide this one. The error
// carries the endpoint, which makes another Service of the same foreign namespace a new
// violation.
func validateEndpointNamespace(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.RemoteStorage == nil || c.spec.AllowCrossNamespace {
		return nil
	}
	endpoint := c.spec.RemoteStorage.Endpoint
	namespace, found := binding.ServiceNamespace(endpoint)
	if !found || namespace == c.namespace {
		return nil
	}
	err := field.Forbidden(spec.Child("remoteStorage", "endpoint"),
		fmt.Sprintf("%q is a Service of the namespace %q and this object is in %q; use one of this namespace, or set allowCrossNamespace to true",
			brief(endpoint), brief(namespace), c.namespace))
	err.BadValue = abbreviated(endpoint)
	return field.ErrorList{err}
}

// block is one of the typed blocks of a remote tier.
type block struct {
	name     string
	provider v1alpha1.StorageProvider
	present  bool
}

func providerBlocks(remote *inferencecache.RemoteStorageSpec) []block {
	return []block{
		{name: "redis", provider: v1alpha1.StorageProviderRedis, present: remote.Redis != nil},
		{name: "lmCacheServer", provider: v1alpha1.StorageProviderLMCacheServer, present: remote.LMCacheServer != nil},
		{name: "mooncake", provider: v1alpha1.StorageProviderMooncake, present: remote.Mooncake != nil},
	}
}

// validateProviderBlocks refuses settings for a workload that will not run: that of
// another provider, or that of a tier which somebody else runs.
func validateProviderBlocks(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.RemoteStorage == nil {
		return nil
	}
	var errs field.ErrorList
	for _, block := range providerBlocks(c.spec.RemoteStorage) {
		if !block.present {
			continue
		}
		fldPath := spec.Child("remoteStorage", block.name)
		if c.provider != "" && c.provider != block.provider {
			errs = append(errs, field.Forbidden(fldPath,
				fmt.Sprintf("configures the provider %s, and the provider is %s; remove it", block.provider, c.provider)))
		}
		if c.external() {
			errs = append(errs, field.Forbidden(fldPath,
				"configures a managed tier, and the ownership is External; remove it"))
		}
	}
	return errs
}

// validateCommand refuses commands that no container starts with. An empty list is
// distinct from none at all: it says that there is a command.
func validateCommand(c *candidate, spec *field.Path) field.ErrorList {
	if !c.managed() {
		return nil
	}
	name, command := "", []string(nil)
	remote := c.spec.RemoteStorage
	switch {
	case c.provider == v1alpha1.StorageProviderLMCacheServer && remote.LMCacheServer != nil:
		name, command = "lmCacheServer", remote.LMCacheServer.Command
	case c.provider == v1alpha1.StorageProviderMooncake && remote.Mooncake != nil:
		name, command = "mooncake", remote.Mooncake.Command
	}
	if command == nil {
		return nil
	}
	fldPath := spec.Child("remoteStorage", name, "command")
	if len(command) == 0 {
		return field.ErrorList{field.Invalid(fldPath, []string{},
			"must have at least one entry; leave it out for the default command")}
	}
	var errs field.ErrorList
	for i, entry := range command {
		if strings.TrimSpace(entry) == "" {
			errs = append(errs, field.Invalid(fldPath.Index(i), abbreviated(entry), "must not be blank; remove the entry"))
		}
	}
	return errs
}
