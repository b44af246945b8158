package profile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// node is a value of a JSON document or an element of an XML one.
type node struct {
	// text of a scalar.
	text   string
	scalar bool
	// named are the members of an object, or the children and attributes ("@name") of an element.
	named map[string][]*node
	// list are the items of an array; nil for everything else.
	list []*node
}

// maxDepth bounds the nesting; the output of real tools stays far below it.
const maxDepth = 64

func parseJSON(out []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(out))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read JSON: there is more after the document")
	}
	return jsonNode(v, 0)
}

func jsonNode(v any, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("read JSON: more than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		n := &node{named: map[string][]*node{}}
		for key, member := range v {
			child, err := jsonNode(member, depth+1)
			if err != nil {
				return nil, err
			}
			n.named[key] = []*node{child}
		}
		return n, nil
	case []any:
		n := &node{list: []*node{}}
		for _, item := range v {
			child, err := jsonNode(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, child)
		}
		return n, nil
	case nil:
		return &node{}, nil
	}
	return &node{text: fmt.Sprint(v), scalar: true}, nil
}

// parseXML returns a node whose only child is the root element.
func parseXML(out []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(out))
	root := &node{named: map[string][]*node{}}
	open, texts := []*node{root}, []*bytes.Buffer{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read XML: %w", err)
		}
		top := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if len(open) > maxDepth {
				return nil, fmt.Errorf("read XML: more than %d levels", maxDepth)
			}
			child := newElement(t)
			top.named[t.Name.Local] = append(top.named[t.Name.Local], child)
			top.scalar = false
			open, texts = append(open, child), append(texts, &bytes.Buffer{})
		case xml.EndElement:
			top.text = strings.TrimSpace(texts[len(texts)-1].String())
			open, texts = open[:len(open)-1], texts[:len(texts)-1]
		case xml.CharData:
			if len(open) > 1 {
				texts[len(texts)-1].Write(t)
			} else if len(bytes.TrimSpace(t)) > 0 {
				return nil, errors.New("read XML: text outside of the document")
			}
		case xml.Directive:
			return nil, errors.New("read XML: document types are not supported")
		}
	}
	if len(root.named) != 1 {
		return nil, errors.New("read XML: no document")
	}
	return root, nil
}

func newElement(t xml.StartElement) *node {
	n := &node{named: map[string][]*node{}, scalar: true}
	for _, a := range t.Attr {
		n.named["@"+a.Name.Local] = append(n.named["@"+a.Name.Local], &node{text: strings.TrimSpace(a.Value), scalar: true})
	}
	return n
}

// step is one step of a path: a name, an index, or the selection of the one item whose value at the path Where is Is.
type step struct {
	name  string
	index int
	where []step
	is    template
}

// value follows the path to a scalar.
func (n *node) value(path []step, of subject) (value string, found bool, err error) {
	at := []*node{n}
	for _, s := range path {
		if at, err = s.from(at, of); err != nil || len(at) == 0 {
			return "", false, err
		}
	}
	switch {
	case len(at) > 1 || at[0].list != nil:
		return "", false, errors.New("there are several: select one by index or with where")
	case !at[0].scalar && at[0].named == nil:
		return "", false, nil // null
	case !at[0].scalar:
		return "", false, errors.New("it has children and is not a single value")
	}
	return at[0].text, true, nil
}

func (s step) from(at []*node, of subject) ([]*node, error) {
	if s.name != "" {
		if len(at) > 1 || at[0].list != nil {
			return nil, fmt.Errorf("several have %q: select one by index or with where", s.name)
		}
		return at[0].named[s.name], nil
	}
	items := at
	if len(at) == 1 && at[0].list != nil {
		items = at[0].list
	}
	if s.where == nil {
		if s.index >= len(items) {
			return nil, nil
		}
		return items[s.index : s.index+1], nil
	}
	want, err := s.is.fill(of)
	if err != nil {
		return nil, err
	}
	var chosen []*node
	for _, item := range items {
		value, found, err := item.value(s.where, of)
		if err != nil {
			return nil, err
		}
		if found && value == want {
			chosen = append(chosen, item)
		}
	}
	if len(chosen) > 1 {
		return nil, fmt.Errorf("%d items have %q", len(chosen), want)
	}
	return chosen, nil
}
