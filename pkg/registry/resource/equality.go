// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/conversion"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"inferencecache.io/inferencecache/pkg/adapters/quantity"
)

// equality is semantic equality whose quantities cannot hang it. Specs are compared before
// they are validated, and a quantity such as 1e2000000000 is written out digit by digit
// when it is compared the usual way.
var equality = func() conversion.Equalities {
	equalities := apiequality.Semantic.Copy()
	utilruntime.Must(equalities.AddFunc(quantity.Equal))
	return equalities
}()

// NextGeneration returns the generation of an object whose spec was old and becomes spec.
func NextGeneration(generation int64, spec, old any) int64 {
	if equality.DeepEqual(spec, old) {
		return generation
	}
	return generation + 1
}
