// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

// withoutProtobuf leaves protobuf out of the media types that a serializer advertises. Our
// types have no protobuf form; as long as it is advertised, a client that would take JSON
// as well is told that nothing is acceptable.
type withoutProtobuf struct {
	runtime.NegotiatedSerializer
}

func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}

// preferJSON takes protobuf out of the Accept header of requests for our resources, unless
// nothing else is acceptable. The generic server answers requests for metadata alone, such
// as those of the garbage collector, with a serializer of its own that does advertise
// protobuf; this way every answer has the one form that the resources have.
func preferJSON(handler http.Handler) http.Handler {
	prefix := "/apis/" + v1alpha1.APIVersion.String() + "/"
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, prefix) {
			if accept := acceptable(req.Header.Values("Accept")); len(accept) > 0 {
				req = req.Clone(req.Context())
				req.Header["Accept"] = []string{strings.Join(accept, ",")}
			}
		}
		handler.ServeHTTP(w, req)
	})
}

// acceptable returns the media ranges of the Accept header lines that are not protobuf.
func acceptable(lines []string) []string {
	var ranges []string
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			mediaType, _, err := mime.ParseMediaType(part)
			if strings.TrimSpace(part) != "" && (err != nil || mediaType != runtime.ContentTypeProtobuf) {
				ranges = append(ranges, part)
			}
		}
	}
	return ranges
}
