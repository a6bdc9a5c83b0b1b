// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"sigs.k8s.io/yaml"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// hugeExponent finds numbers that the decoder of quantities writes out in full: with an
// exponent of seven digits it takes seconds, with ten all the memory there is. That happens
// before any validation, so it has to be seen in the raw body.
var hugeExponent = regexp.MustCompile(`[0-9.][eE][+-]?0*[1-9][0-9]{6,}`)

// quantityKeys are the members that hold quantities, or objects of them.
var quantityKeys = sets.New("capacity", "limits", "requests", "divisor")

// refuseHugeQuantities answers 400 to writes with a quantity that is not worth decoding.
// Only a body with such a number anywhere is looked at more closely.
func refuseHugeQuantities(handler http.Handler) http.Handler {
	prefix := "/apis/" + v1alpha1.APIVersion.String() + "/"
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Body == nil || !strings.HasPrefix(req.URL.Path, prefix) {
			handler.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequestBodyBytes))
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			err = apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", tooLarge.Limit))
		}
		if err == nil && hugeExponent.Match(body) && hasHugeQuantity(body) {
			err = apierrors.NewBadRequest("quantities must be less than 1e19: the body has one with an exponent of seven digits or more")
		}
		if err != nil {
			responsewriters.ErrorNegotiated(err, Codecs, v1alpha1.APIVersion, w, req)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, req)
	})
}

// hasHugeQuantity looks for such a number where quantities are. What cannot be read here is
// left to the decoder, which cannot read it either.
func hasHugeQuantity(body []byte) bool {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if decoder.Decode(&tree) != nil && yaml.Unmarshal(body, &tree) != nil {
		return false
	}
	return findHuge(tree, false)
}

func findHuge(tree any, inQuantity bool) bool {
	switch value := tree.(type) {
	case map[string]any:
		// A JSON patch has the place in one member and the value in another.
		path, _ := value["path"].(string)
		patched := path != "" && quantityKeys.HasAny(strings.Split(path, "/")...)
		for name, member := range value {
			if findHuge(member, inQuantity || quantityKeys.Has(name) || patched && name == "value") {
				return true
			}
		}
	case []any:
		for _, element := range value {
			if findHuge(element, inQuantity) {
				return true
			}
		}
	case string:
		return inQuantity && hugeExponent.MatchString(value)
	case json.Number:
		return inQuantity && hugeExponent.MatchString(value.String())
	}
	return false
}
