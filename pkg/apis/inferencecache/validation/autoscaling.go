// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// band is the bad value of rules on spec.autoscaling as a whole, spelled like the object
// in a manifest.
type band struct {
	MinReplicas                 int32 `json:"minReplicas,omitempty"`
	MaxReplicas                 int32 `json:"maxReplicas"`
	TargetCPUUtilizationPercent int32 `json:"targetCPUUtilizationPercent,omitempty"`
}

func bandOf(autoscaling *inferencecache.AutoscalingSpec) band {
	b := band{MaxReplicas: autoscaling.MaxReplicas}
	if autoscaling.MinReplicas != nil {
		b.MinReplicas = *autoscaling.MinReplicas
	}
	if autoscaling.TargetCPUUtilizationPercent != nil {
		b.TargetCPUUtilizationPercent = *autoscaling.TargetCPUUtilizationPercent
	}
	return b
}

// validateMaxReplicas is written by hand because the field is always serialised: a tag
// would report one that is left out as missing, while 0 is simply too small.
func validateMaxReplicas(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.Autoscaling == nil || c.spec.Autoscaling.MaxReplicas >= 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("autoscaling", "maxReplicas"), c.spec.Autoscaling.MaxReplicas,
		"must be greater than or equal to 1")}
}

// validateReplicaBand compares the bounds after the floor was filled in.
func validateReplicaBand(c *candidate, spec *field.Path) field.ErrorList {
	autoscaling := c.spec.Autoscaling
	if autoscaling == nil || autoscaling.MinReplicas == nil || autoscaling.MaxReplicas < 1 || *autoscaling.MinReplicas < 1 {
		return nil
	}
	if *autoscaling.MinReplicas <= autoscaling.MaxReplicas {
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("autoscaling"), bandOf(autoscaling),
		"minReplicas, which is filled in from replicas when it is left out, must not be above maxReplicas; lower it or raise maxReplicas")}
}

// validateFloor asks for the floor where none can be filled in: an autoscaler has no floor
// of 0, and picking 1 would override the wish to scale to zero.
func validateFloor(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.Replicas == nil || *c.spec.Replicas != 0 {
		return nil
	}
	if c.spec.Autoscaling == nil || c.spec.Autoscaling.MinReplicas != nil {
		return nil
	}
	return field.ErrorList{field.Required(spec.Child("autoscaling", "minReplicas"),
		"it cannot be filled in from replicas: 0; set minReplicas, or remove spec.autoscaling to scale to zero")}
}

// validateAutoscalingTarget refuses to scale a backend that has no workload.
func validateAutoscalingTarget(c *candidate, spec *field.Path) field.ErrorList {
	if c.spec.RemoteStorage != nil || c.spec.Autoscaling == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(spec.Child("autoscaling"),
		"there is nothing to scale without remoteStorage; remove it")}
}

// validateSingleton keeps tiers at one replica whose replicas would not know of each
// other.
func validateSingleton(c *candidate, spec *field.Path) field.ErrorList {
	if !c.singleton() {
		return nil
	}
	var errs field.ErrorList
	if c.spec.Replicas != nil && *c.spec.Replicas > 1 {
		errs = append(errs, field.Invalid(spec.Child("replicas"), *c.spec.Replicas,
			fmt.Sprintf("replicas of %s do not share what they hold; use 0 or 1", c.provider)))
	}
	if c.spec.Autoscaling != nil {
		errs = append(errs, field.Invalid(spec.Child("autoscaling"), bandOf(c.spec.Autoscaling),
			fmt.Sprintf("replicas of %s do not share what they hold, so it cannot be scaled out; remove it", c.provider)))
	}
	return errs
}
