// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Table prints objects of one kind. Every table begins with the name and ends with the
// age of the object; what stands between is the kind's own.
type Table[T runtime.Object] struct {
	headers []metav1.TableColumnDefinition
	cells   func(T) []any
}

var _ rest.TableConvertor = Table[runtime.Object]{}

// NewTable returns a table with the given columns between name and age. cells returns one
// value for each of them; nil is printed as a blank.
func NewTable[T runtime.Object](columns []metav1.TableColumnDefinition, cells func(T) []any) Table[T] {
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	headers := make([]metav1.TableColumnDefinition, 0, len(columns)+2)
	headers = append(headers, metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: docs["name"]})
	headers = append(headers, columns...)
	headers = append(headers, metav1.TableColumnDefinition{Name: "Age", Type: "date", Description: docs["creationTimestamp"]})
	return Table[T]{headers: headers, cells: cells}
}

// ConvertToTable returns the table of an object or a list.
func (t Table[T]) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	rows, err := metatable.MetaToTableRow(object, t.row)
	if err != nil {
		return nil, fmt.Errorf("printing %T: %w", object, err)
	}
	table := &metav1.Table{Rows: rows}
	if list, err := meta.ListAccessor(object); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if single, err := meta.CommonAccessor(object); err == nil {
		table.ResourceVersion = single.GetResourceVersion()
	}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		table.ColumnDefinitions = t.headers
	}
	return table, nil
}

func (t Table[T]) row(object runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
	typed, ok := object.(T)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", object)
	}
	cells := append([]any{name}, t.cells(typed)...)
	return append(cells, age), nil
}

// Cell returns the value of a pointer, or nil for a blank cell. A missing observation is
// not the same as an observed zero.
func Cell[V any](value *V) any {
	if value == nil {
		return nil
	}
	return *value
}
