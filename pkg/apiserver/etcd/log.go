// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// besideThePoint are warnings that every start brings and that do not hold for a store behind a private socket.
var besideThePoint = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
}

// logCore carries etcd's log to ours, so that a process has one log, in one format. Below warning etcd tells its own
// story, which nobody asked for here.
type logCore struct {
	log    logr.Logger
	fields []zapcore.Field
	// closing is set when etcd is being closed: it then reports each listener that ends as an error.
	closing *atomic.Bool
}

func newZapLogger(log logr.Logger, closing *atomic.Bool) *zap.Logger {
	return zap.New(&logCore{log: log.WithName("etcd"), closing: closing})
}

// Enabled is part of zapcore.Core.
func (c *logCore) Enabled(level zapcore.Level) bool {
	return level >= zapcore.DPanicLevel || level >= zapcore.WarnLevel && !c.closing.Load()
}

// With is part of zapcore.Core.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{log: c.log, fields: slices.Concat(c.fields, fields), closing: c.closing}
}

// Check is part of zapcore.Core.
func (c *logCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) && !besideThePoint[entry.Message] {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write is part of zapcore.Core. Panics and exits that go with a level are zap's business, after this.
func (c *logCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	var cause error
	for _, field := range slices.Concat(c.fields, fields) {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			cause = err
			continue
		}
		field.AddTo(encoder)
	}
	values := make([]any, 0, 2*len(encoder.Fields)+2)
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		values = append(values, key, encoder.Fields[key])
	}
	if entry.Level >= zapcore.ErrorLevel {
		c.log.Error(cause, entry.Message, values...)
		return nil
	}
	if cause != nil {
		values = append(values, "err", cause)
	}
	c.log.Info(entry.Message, values...)
	return nil
}

// Sync is part of zapcore.Core.
func (c *logCore) Sync() error {
	return nil
}
