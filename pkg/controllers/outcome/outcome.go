// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outcome logs calls that are made again and again: not each time, but when their
// outcome changes.
package outcome

import (
	"errors"
	"regexp"

	"github.com/go-logr/logr"
)

// Log tells when a call begins to fail, fails for another cause, or succeeds again. It must
// not be used by several goroutines at once.
type Log struct {
	// Failure and Success are the messages.
	Failure, Success string

	reported bool
	cause    string
}

// Report tells the outcome of a call, unless that of the last one was the same.
func (l *Log) Report(logger logr.Logger, err error) {
	cause := causeOf(err)
	if l.reported && cause == l.cause {
		return
	}
	l.reported, l.cause = true, cause
	if err != nil {
		logger.Error(err, l.Failure)
		return
	}
	logger.Info(l.Success)
}

// localAddress is our end of a connection in the errors of package net.
var localAddress = regexp.MustCompile(`\S+:\d+->`)

// causeOf is the text of an error without what differs between two connections, and of one
// error that stands for many without their number.
func causeOf(err error) string {
	if err == nil {
		return ""
	}
	if many, ok := errors.AsType[interface {
		error
		Cause() error
	}](err); ok {
		err = many.Cause()
	}
	return localAddress.ReplaceAllString(err.Error(), "")
}
