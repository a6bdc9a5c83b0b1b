// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"inferencecache.io/inferencecache/pkg/adapters/quantity"
)

// maxPrinted bounds how many bytes of a text are repeated in an error. Most texts have no
// upper length, and an answer that is as long as the request helps nobody.
const maxPrinted = 64

// excerpt is a bad value of which messages print less than updates compare: it may be long,
// or secret.
type excerpt struct {
	printed any
	// whole is compared. Two violations whose whole values differ are not the same.
	whole any
}

// MarshalJSON returns what is printed: field.Error prints bad values as JSON if it can.
func (e excerpt) MarshalJSON() ([]byte, error) {
	return json.Marshal(e.printed)
}

// String keeps the whole value out of everything else that prints it.
func (e excerpt) String() string {
	return fmt.Sprint(e.printed)
}

// brief shortens a text for a message.
func brief(text string) string {
	if len(text) <= maxPrinted {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(text[:maxPrinted], ""), len(text))
}

// abbreviated is the bad value for a text.
func abbreviated(text string) any {
	if len(text) <= maxPrinted {
		return text
	}
	return excerpt{printed: brief(text), whole: text}
}

// wholeEnv is all of an entry of an environment. The divisor is apart, because JSON writes
// quantities out.
type wholeEnv struct {
	Entry   corev1.EnvVar
	Divisor string
}

func wholeEnvOf(entry corev1.EnvVar) wholeEnv {
	whole := wholeEnv{Entry: entry}
	if entry.ValueFrom == nil || entry.ValueFrom.ResourceFieldRef == nil {
		return whole
	}
	source, selector := *entry.ValueFrom, *entry.ValueFrom.ResourceFieldRef
	whole.Divisor = quantity.Of(selector.Divisor).Spell()
	selector.Divisor = resource.Quantity{}
	source.ResourceFieldRef = &selector
	whole.Entry.ValueFrom = &source
	return whole
}
