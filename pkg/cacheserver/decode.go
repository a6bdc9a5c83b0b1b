// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	kjson "sigs.k8s.io/json"
)

const (
	// maxRows bounds what the rows of a list can cost in memory, of which the controller has
	// little. It is above the pods of the largest clusters.
	maxRows = 1 << 17
	// maxValueBytes bounds what is held while one value is decoded. Rows have some 300 bytes.
	maxValueBytes = 1 << 20
)

// decodeSnapshot reads a snapshot row by row. It is all or nothing, and its errors are short
// whatever the server sent.
//
// Keys are matched exactly, unknown ones are ignored at any level, and null is the same as
// a missing key. What the server counts itself cannot be negative: whoever says that is not
// the server we think it is. What it passes on from engines is read as 0 then, which means
// that it is not known: one broken engine must not hide all others.
func decodeSnapshot(body io.Reader) (*Snapshot, error) {
	reader := &boundedReader{Reader: body}
	d := snapshotDecoder{Decoder: kjson.NewDecoderCaseSensitivePreserveInts(reader)}
	reader.consumed = d.InputOffset
	if err := d.document(); err != nil {
		return nil, fmt.Errorf("decoding the snapshot: %w", err)
	}
	return &d.snapshot, nil
}

// boundedReader gives the decoder its input, and no more of it at a time than a row may
// have: the decoder holds all that lies between two tokens, white space included.
//
// It reads as much as there is room for. After every read the decoder looks again at all
// white space in its buffer: what comes in small pieces would take it quadratic time.
type boundedReader struct {
	io.Reader
	read int64
	// consumed is how much the decoder is done with.
	consumed func() int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.read-r.consumed() > maxValueBytes {
		return 0, fmt.Errorf("a value or the space around it is larger than %d bytes", maxValueBytes)
	}
	n, err := io.ReadFull(r.Reader, p)
	r.read += int64(n)
	if n > 0 {
		return n, nil // The error comes again.
	}
	return 0, err
}

// snapshotDecoder walks through the outer object by tokens and decodes each row as a value.
type snapshotDecoder struct {
	kjson.Decoder
	snapshot Snapshot
}

func (d *snapshotDecoder) document() error {
	if start, err := d.token(); err != nil {
		return err
	} else if start != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.token()
		if err != nil {
			return err
		}
		key := token.(string) // The tokenizer takes nothing else for a key.
		if seen[key] {
			return fmt.Errorf("%s is there twice", key)
		}
		known, err := d.member(key)
		if err != nil {
			return err
		}
		if known {
			seen[key] = true
		}
	}
	if _, err := d.token(); err != nil {
		return err
	}
	if _, err := d.Token(); err == nil {
		return errors.New("something follows the JSON object")
	} else if err != io.EOF {
		return err
	}
	return nil
}

// member reads the value of a key and says whether the key is known.
func (d *snapshotDecoder) member(key string) (known bool, err error) {
	switch key {
	case "replicas":
		return true, readRows(d, key, d.takeReplica)
	case "tenants":
		return true, readRows(d, key, d.takeTenant)
	case "totalPrefixes":
		return true, d.count(key, &d.snapshot.TotalPrefixes)
	case "hotPrefixes":
		return true, d.count(key, &d.snapshot.HotPrefixes)
	}
	return false, unexpectedEnd(d.Decode(&ignored{}))
}

func (d *snapshotDecoder) count(key string, count *int64) error {
	if err := d.Decode(count); err != nil {
		return fmt.Errorf("%s: %w", key, short(err))
	}
	return notNegative(key, *count)
}

// token is Token where the input cannot be at its end.
func (d *snapshotDecoder) token() (json.Token, error) {
	token, err := d.Token()
	return token, unexpectedEnd(err)
}

// readRows reads an array of objects into one row after the other, always the same one. It
// is up to take to make it a zero row again.
func readRows[Row any](d *snapshotDecoder, key string, take func(*Row) error) error {
	start, err := d.token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return fmt.Errorf("%s is not an array", key)
	}
	var row Row
	target := &row
	for i := 0; d.More(); i++ {
		if i == maxRows {
			return fmt.Errorf("%s has more than %d rows", key, maxRows)
		}
		if err := d.Decode(&target); err != nil {
			return fmt.Errorf("%s[%d]: %w", key, i, short(err))
		}
		if target == nil {
			return fmt.Errorf("%s[%d] is null", key, i)
		}
		if err := take(target); err != nil {
			return fmt.Errorf("%s[%d]: %w", key, i, err)
		}
	}
	_, err = d.token()
	return err
}

// short leaves out of an error the value that did not fit, which may be long.
func short(err error) error {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		if mismatch.Field == "" {
			return fmt.Errorf("a JSON %s does not fit", kind)
		}
		return fmt.Errorf("%s: a JSON %s does not fit", mismatch.Field, kind)
	}
	return unexpectedEnd(err)
}

func unexpectedEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func notNegative(key string, count int64) error {
	if count < 0 {
		return fmt.Errorf("%s is negative", key)
	}
	return nil
}
