package journal

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// carryOver returns the next form of a record of type T with the members of the stored one that T does not have: a newer
// daemon wrote them, and reads them again. They stay with their object as long as it is the same one, at any depth.
func carryOver[T any](stored, next []byte) ([]byte, error) {
	if stored == nil {
		return next, nil
	}
	was, err := decodeTree(stored)
	if err != nil {
		return nil, fmt.Errorf("what is stored: %w", err)
	}
	is, err := decodeTree(next)
	if err != nil {
		return nil, err
	}
	if !carry(reflect.TypeFor[T](), was, is) {
		return next, nil
	}
	return json.Marshal(is)
}

func decodeTree(raw []byte) (tree any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // a number keeps its digits
	return tree, d.Decode(&tree)
}

// carry adds to next, a value of type t, what the stored value has beyond t. It reports whether there was something.
func carry(t reflect.Type, stored, next any) (added bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch was := stored.(type) {
	case map[string]any:
		is, ok := next.(map[string]any)
		if !ok || opaque(t) {
			return false
		}
		switch t.Kind() {
		case reflect.Map:
			for name, value := range was {
				if is[name] != nil {
					added = carry(t.Elem(), value, is[name]) || added
				}
			}
		case reflect.Struct:
			added = carryMembers(members(t), was, is)
		}
	case []any:
		if is, ok := next.([]any); ok && t.Kind() == reflect.Slice {
			added = carryElements(t.Elem(), was, is)
		}
	}
	return added
}

func carryMembers(known map[string]reflect.Type, was, is map[string]any) (added bool) {
	if identity(was) != identity(is) {
		return false
	}
	for name, value := range was {
		if t, ok := known[name]; ok {
			added = carry(t, value, is[name]) || added
		} else {
			is[name], added = value, true
		}
	}
	return added
}

// carryElements pairs the elements of a list that stand for the same thing: the first of an identity with the first, and so on.
func carryElements(t reflect.Type, was, is []any) (added bool) {
	type place struct {
		identity string
		n        int
	}
	stored, seen := map[place]any{}, map[string]int{}
	for _, e := range was {
		id := identity(e)
		stored[place{id, seen[id]}] = e
		seen[id]++
	}
	clear(seen)
	for _, e := range is {
		id := identity(e)
		added = carry(t, stored[place{id, seen[id]}], e) || added
		seen[id]++
	}
	return added
}

// identity is the value of the members that say which thing an object is about, in all types of the journal.
func identity(o any) string {
	object, ok := o.(map[string]any)
	if !ok {
		return ""
	}
	var out []any
	for _, name := range []string{"uid", "uniqueID", "job", "name", "device", "digest", "kind", "reason", "step", "since", "time"} {
		out = append(out, object[name])
	}
	return fmt.Sprintf("%q", out)
}

// opaque reports whether a type has a JSON form of its own.
func opaque(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// members are the names and types of the members of a struct in JSON.
func members(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() {
			continue
		}
		out[name] = f.Type
	}
	return out
}
