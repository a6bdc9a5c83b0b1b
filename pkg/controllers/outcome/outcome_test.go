// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	t.Parallel()
	reset := func(port int) error {
		return fmt.Errorf("reading: %w", &net.OpError{
			Op: "read", Net: "tcp", Err: errors.New("connection reset by peer"),
			Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8081},
		})
	}
	refused := errors.New("connection refused")
	for name, tt := range map[string]struct {
		calls []error
		want  []string
	}{
		"works":                  {[]error{nil, nil}, []string{"works"}},
		"never works":            {[]error{refused, refused, refused}, []string{"connection refused"}},
		"fails and works again":  {[]error{nil, refused, refused, nil, nil}, []string{"works", "connection refused", "works"}},
		"fails for other causes": {[]error{refused, errors.New("403"), refused}, []string{"connection refused", "403", "connection refused"}},
		"other connections": {[]error{reset(40000), reset(40002)}, []string{
			"reading: read tcp 10.0.0.7:40000->10.0.0.1:8081: connection reset by peer",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			logger := funcr.NewJSON(func(line string) { told = append(told, line) }, funcr.Options{
				RenderBuiltinsHook: func(pairs []any) []any {
					for i := 0; i < len(pairs); i += 2 {
						if pairs[i] == "error" || (pairs[i] == "msg" && pairs[i+1] == "works") {
							return []any{"told", pairs[i+1]}
						}
					}
					return pairs
				},
			})
			log := Log{Failure: "fails", Success: "works"}
			for _, err := range tt.calls {
				log.Report(logger, err)
			}
			var want []string
			for _, text := range tt.want {
				want = append(want, fmt.Sprintf(`{"told":%q}`, text))
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}
