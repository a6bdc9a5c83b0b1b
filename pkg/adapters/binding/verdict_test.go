// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"strings"
	"testing"
	"unicode/utf8"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

func TestJudgeExternal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		provider v1alpha1.StorageProvider
		endpoint string
		want     Verdict
		contains []string
	}{
		{name: "accepted", provider: lmcache, endpoint: " lm://h:8200 ",
			want: Verdict{Endpoint: "lm://h:8200", Ready: true, Reason: v1alpha1.ReasonExternalEndpointAccepted}},
		{name: "scheme kept as written", provider: lmcache, endpoint: "LM://h:08200",
			want: Verdict{Endpoint: "LM://h:08200", Ready: true, Reason: v1alpha1.ReasonExternalEndpointAccepted}},
		{name: "no port", provider: lmcache, endpoint: "h",
			want:     Verdict{Endpoint: "h", Reason: v1alpha1.ReasonExternalEndpointInvalid},
			contains: []string{"spec.remoteStorage.endpoint", "has no port"}},
		{name: "blank", provider: redis, endpoint: "  ",
			want:     Verdict{Reason: v1alpha1.ReasonExternalEndpointMissing},
			contains: []string{"spec.remoteStorage.endpoint", "is empty"}},
		{name: "scheme of another provider", provider: redis, endpoint: "lm://h:1",
			want:     Verdict{Endpoint: "lm://h:1", Reason: v1alpha1.ReasonExternalEndpointInvalid},
			contains: []string{"spec.remoteStorage.endpoint", `"lm"`}},
		{name: "unknown provider", provider: "Valkey", endpoint: "h:1",
			want:     Verdict{Endpoint: "h:1", Reason: v1alpha1.ReasonExternalEndpointInvalid},
			contains: []string{"spec.remoteStorage.endpoint", "Valkey"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := JudgeExternal(tt.provider, tt.endpoint)
			for _, text := range tt.contains {
				if !strings.Contains(got.Message, text) {
					t.Errorf("message %q does not contain %q", got.Message, text)
				}
			}
			if got.Message == "" {
				t.Error("there is no message")
			}
			got.Message = ""
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A condition holds at most 32768 bytes of message; an endpoint may be longer.
func TestJudgeExternalBoundsItsMessage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é\x01\"", 40000)
	for _, endpoint := range []string{
		long, "h:" + long, long + "://h:1", "h:1/" + long, strings.Repeat("é", 40000), "h:1/" + strings.Repeat("é", 40000),
	} {
		message := JudgeExternal(v1alpha1.StorageProvider(lmcache), endpoint).Message
		if len(message) > 1024 || !utf8.ValidString(message) {
			t.Errorf("the message has %d bytes: %.80q", len(message), message)
		}
	}
	if message := JudgeExternal(v1alpha1.StorageProvider(long), "h:1").Message; len(message) > 1024 {
		t.Errorf("the message about the provider has %d bytes", len(message))
	}
}
