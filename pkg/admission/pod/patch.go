// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchFor returns the JSON patch that takes the pod as received to what the typed pod
// became. It is the difference of the typed pod before and after, addressed in the received
// one: fields that this build does not know, and values that it spells differently, stay as
// they are. Nothing is returned when the typed pods are equal.
func patchFor(received []byte, before, after *corev1.Pod) ([]byte, error) {
	var raw any
	if err := decodeTree(received, &raw); err != nil {
		return nil, fmt.Errorf("reading the received pod: %w", err)
	}
	old, err := treeOf(before)
	if err != nil {
		return nil, err
	}
	desired, err := treeOf(after)
	if err != nil {
		return nil, err
	}
	var d differ
	d.walk("", raw, old, desired)
	if len(d.operations) == 0 {
		return nil, nil
	}
	return json.Marshal(d.operations)
}

func treeOf(pod *corev1.Pod) (any, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	var tree any
	return tree, decodeTree(data, &tree)
}

// decodeTree keeps numbers as they are written: a float has no room for every int64.
func decodeTree(data []byte, tree *any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(tree)
}

// differ collects the operations of a patch, in the order in which they apply.
type differ struct {
	operations []operation
}

func (d *differ) add(path string, value any) {
	d.operations = append(d.operations, operation{Op: "add", Path: path, Value: value})
}

func (d *differ) replace(path string, value any) {
	d.operations = append(d.operations, operation{Op: "replace", Path: path, Value: value})
}

func (d *differ) remove(path string) {
	d.operations = append(d.operations, operation{Op: "remove", Path: path})
}

// walk compares one value before and after; raw is the same value as received.
func (d *differ) walk(path string, raw, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	switch desired := after.(type) {
	case map[string]any:
		rawMap, known := raw.(map[string]any)
		if old, ok := before.(map[string]any); ok && known {
			d.walkMap(path, rawMap, old, desired)
			return
		}
	case []any:
		rawList, known := raw.([]any)
		if old, ok := before.([]any); ok && known && len(rawList) == len(old) && d.walkList(path, rawList, old, desired) {
			return
		}
	}
	d.replace(path, after)
}

func (d *differ) walkMap(path string, raw, before, after map[string]any) {
	for _, name := range sortedKeys(before, after) {
		member := path + "/" + escape(name)
		received, present := raw[name]
		old, had := before[name]
		desired, wanted := after[name]
		switch {
		case !wanted && present:
			d.remove(member)
		case wanted && present && had:
			d.walk(member, received, old, desired)
		case wanted && (!had || !reflect.DeepEqual(old, desired)):
			// What is not in the received pod is added whole, also where the typed one
			// has an empty value in its place.
			d.add(member, desired)
		}
	}
}

// walkList compares lists element by element where the elements can be told apart, so that
// an unchanged element keeps what is not known about it. It reports false, having done
// nothing, where a list has to be replaced as a whole.
func (d *differ) walkList(path string, raw, before, after []any) bool {
	pairs, ok := align(before, after)
	if !ok {
		return false
	}
	position, next := 0, 0
	for i := range before {
		j, kept := pairs[i]
		if !kept {
			d.remove(path + "/" + strconv.Itoa(position))
			continue
		}
		for ; next < j; next++ {
			d.add(path+"/"+strconv.Itoa(position), after[next])
			position++
		}
		d.walk(path+"/"+strconv.Itoa(position), raw[i], before[i], after[j])
		position++
		next++
	}
	for ; next < len(after); next++ {
		d.add(path+"/-", after[next])
	}
	return true
}

// align finds for the elements of before the same elements of after. It reports false when
// some cannot be told apart or have changed places.
func align(before, after []any) (map[int]int, bool) {
	oldIDs, oldOK := identities(before)
	newIDs, newOK := identities(after)
	if !oldOK || !newOK {
		return nil, false
	}
	places := make(map[identity]int, len(newIDs))
	for j, id := range newIDs {
		places[id] = j
	}
	pairs := make(map[int]int, len(oldIDs))
	last := -1
	for i, id := range oldIDs {
		j, kept := places[id]
		if !kept {
			continue
		}
		if j < last {
			return nil, false
		}
		pairs[i], last = j, j
	}
	return pairs, true
}

// identity tells elements of a list apart: by name and, since names may repeat, by which
// of that name it is.
type identity struct {
	name  string
	count int
}

// identities returns the identity of each element, and false if some have none.
func identities(list []any) ([]identity, bool) {
	seen := make(map[string]int, len(list))
	ids := make([]identity, 0, len(list))
	for _, element := range list {
		object, _ := element.(map[string]any)
		name, ok := object["name"].(string)
		if !ok {
			return nil, false
		}
		ids = append(ids, identity{name: name, count: seen[name]})
		seen[name]++
	}
	return ids, true
}

func sortedKeys(maps ...map[string]any) []string {
	var keys []string
	for _, m := range maps {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// escape writes a member name as a token of a JSON pointer.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
