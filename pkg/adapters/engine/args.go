// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
)

// argument is one or two slots of a command line that belong together.
type argument struct {
	// flag is the text up to the first =, and empty for a positional argument.
	flag  string
	value string
	slots []string
}

func isFlag(slot string) bool {
	return strings.HasPrefix(slot, "-")
}

// splitArgs groups a command line. What each flag takes is not known, so a flag without =
// is given the next slot, unless that is a flag itself.
func splitArgs(args []string) []argument {
	var list []argument
	for i := 0; i < len(args); i++ {
		slot := args[i]
		flag, value, joined := strings.Cut(slot, "=")
		switch {
		case !isFlag(slot):
			list = append(list, argument{slots: []string{slot}})
		case !joined && i+1 < len(args) && !isFlag(args[i+1]):
			i++
			list = append(list, argument{flag: slot, value: args[i], slots: []string{slot, args[i]}})
		default:
			list = append(list, argument{flag: flag, value: value, slots: []string{slot}})
		}
	}
	return list
}

func joinArgs(list []argument) []string {
	var args []string
	for _, arg := range list {
		args = append(args, arg.slots...)
	}
	return args
}

// argValues returns the value of each flag, the last if there are several.
func argValues(list []argument) map[string]string {
	values := map[string]string{}
	for _, arg := range list {
		if arg.flag != "" {
			values[arg.flag] = arg.value
		}
	}
	return values
}

func indexFlag(list []argument, flag string) int {
	return slices.IndexFunc(list, func(arg argument) bool { return arg.flag == flag })
}

func hasSlot(list []argument, slot string) bool {
	return slices.ContainsFunc(list, func(arg argument) bool { return slices.Contains(arg.slots, slot) })
}
