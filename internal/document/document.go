package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Problem is something wrong at a path of a document, such as "spec.rules[0].version".
type Problem struct{ Path, Text string }

// Header is what says of which kind a document is.
type Header struct{ APIVersion, Kind string }

// CheckVersion returns a problem where a document is of no version of the product's API. All versions have one schema, so that a document
// is read as one of v1alpha1 whatever it says.
func (h Header) CheckVersion() []Problem {
	const newest = v1alpha1.GroupName + "/v1beta1"
	if h.APIVersion == newest || h.APIVersion == v1alpha1.GroupVersion.String() {
		return nil
	}
	return []Problem{{Path: "apiVersion", Text: fmt.Sprintf("apiVersion is %q, want %q or %q", h.APIVersion, newest, v1alpha1.GroupVersion)}}
}

// Each calls accept with each document of a file, as JSON. It returns every problem with the file and its line.
func Each(file string, text []byte, accept func(h Header, raw []byte) []Problem) (errs []error) {
	decoder := goyaml.NewDecoder(bytes.NewReader(text))
	for {
		var node goyaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return errs
		}
		if err != nil {
			return append(errs, fmt.Errorf("%s: %w", file, err))
		}
		if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
			continue
		}
		for _, p := range read(node.Content[0], accept) {
			errs = append(errs, fmt.Errorf("%s:%d: %s", file, lineOf(node.Content[0], p.Path), p.Text))
		}
	}
}

func read(node *goyaml.Node, accept func(h Header, raw []byte) []Problem) []Problem {
	text, err := goyaml.Marshal(node)
	if err != nil {
		return []Problem{{"", err.Error()}}
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return []Problem{{"", err.Error()}}
	}
	var h Header
	if err := yaml.Unmarshal(raw, &h); err != nil {
		return []Problem{{"", err.Error()}}
	}
	return accept(h, raw)
}

// quotedPath finds the path in what the strict decoder says, such as: unknown field "spec.devise".
var quotedPath = regexp.MustCompile(`field "([^"]+)"`)

// Items calls accept with the items of a list, as kubectl prints it, or with the document itself.
func Items(h Header, raw []byte, accept func(h Header, raw []byte) []Problem) (out []Problem) {
	if h.Kind != "List" {
		return accept(h, raw)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return []Problem{{Path: "items", Text: err.Error()}}
	}
	for i, item := range list.Items {
		var of Header
		if err := json.Unmarshal(item, &of); err != nil {
			return append(out, Problem{Path: fmt.Sprintf("items[%d]", i), Text: err.Error()})
		}
		for _, p := range accept(of, item) {
			out = append(out, Problem{Path: fmt.Sprintf("items[%d].%s", i, p.Path), Text: p.Text})
		}
	}
	return out
}

// Strict reads a document into a value, and returns unknown fields and values of a wrong type as problems.
func Strict(raw []byte, into any) []Problem {
	unknown, err := kjson.UnmarshalStrict(raw, into)
	var out []Problem
	if err != nil {
		path := ""
		if _, after, ok := strings.Cut(err.Error(), " into Go struct field "); ok {
			if _, field, ok := strings.Cut(after, "."); ok {
				path, _, _ = strings.Cut(field, " ")
			}
		}
		out = append(out, Problem{path, err.Error()})
	}
	for _, u := range unknown {
		path := ""
		if m := quotedPath.FindStringSubmatch(u.Error()); m != nil {
			path = m[1]
		}
		out = append(out, Problem{path, u.Error()})
	}
	return out
}

// lineOf is the line of the deepest part of the path that is there.
func lineOf(node *goyaml.Node, path string) int {
	line := node.Line
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next := child(node, step)
		if next == nil {
			return line
		}
		if line = next.Line; node.Kind == goyaml.MappingNode {
			line = keyLine(node, step)
		}
		node = next
	}
	return line
}

func child(node *goyaml.Node, step string) *goyaml.Node {
	if node.Kind == goyaml.SequenceNode {
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(node.Content) {
			return nil
		}
		return node.Content[i]
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == step {
			return node.Content[i+1]
		}
	}
	return nil
}

func keyLine(node *goyaml.Node, key string) int {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i].Line
		}
	}
	return node.Line
}
