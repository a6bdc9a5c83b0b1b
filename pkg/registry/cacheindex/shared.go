// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache"
)

// sharedObject is an object that is sent to many watchers. It is encoded once for all that
// want it in the same form. Ages in a table are then those of the moment of the change, so
// it is for news and not for those who come later.
type sharedObject struct {
	object *inferencecache.CacheIndex

	mu      sync.Mutex
	encoded map[runtime.Identifier]*encoding
}

// encoding is one form of an object.
type encoding struct {
	once sync.Once
	data []byte
	err  error
}

var _ runtime.CacheableObject = &sharedObject{}

// share takes an object over. Nobody may change it from now on.
func share(object *inferencecache.CacheIndex) *sharedObject {
	return &sharedObject{object: object, encoded: map[runtime.Identifier]*encoding{}}
}

// CacheEncode writes the form that id names, which encode makes if nobody has before.
func (o *sharedObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	form := o.form(id)
	form.once.Do(func() {
		var buffer bytes.Buffer
		form.err = encode(o.GetObject(), &buffer)
		form.data = buffer.Bytes()
	})
	if form.err != nil {
		return form.err
	}
	if splice, ok := w.(runtime.Splice); ok {
		splice.Splice(form.data)
		return nil
	}
	_, err := w.Write(form.data)
	return err
}

func (o *sharedObject) form(id runtime.Identifier) *encoding {
	o.mu.Lock()
	defer o.mu.Unlock()
	form, ok := o.encoded[id]
	if !ok {
		form = &encoding{}
		o.encoded[id] = form
	}
	return form
}

// GetObject returns the object for its caller to change.
func (o *sharedObject) GetObject() runtime.Object { return o.object.DeepCopy() }

// GetObjectKind returns the kind of the object.
func (o *sharedObject) GetObjectKind() schema.ObjectKind { return o.object.GetObjectKind() }

// DeepCopyObject returns a copy without the forms.
func (o *sharedObject) DeepCopyObject() runtime.Object { return share(o.object.DeepCopy()) }
