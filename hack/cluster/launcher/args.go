// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"errors"
	"strings"
)

// SplitArgs splits a line into arguments as a shell does: at blanks that are neither quoted nor escaped. Nothing is
// expanded, and a backslash inside single quotes is an ordinary character.
func SplitArgs(line string) ([]string, error) {
	var args []string
	var word strings.Builder
	started, escaped := false, false
	quote := rune(0)
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, started = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if started {
				args = append(args, word.String())
				word.Reset()
				started = false
			}
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("splitting arguments: unfinished quote or escape")
	}
	if started {
		args = append(args, word.String())
	}
	return args, nil
}
