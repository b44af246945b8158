package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Documents holds the desired firmware and its sources as read from files.
type Documents struct {
	Templates []v1alpha1.FirmwareTemplate
	Sources   []v1alpha1.FirmwareSource
}

// Load reads the FirmwareTemplates and FirmwareSources of the files. Every problem is reported with its file and line.
func Load(files []string) (Documents, error) {
	var docs Documents
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("read template: %w", err))
			continue
		}
		errs = append(errs, docs.read(file, text)...)
	}
	if len(errs) == 0 && len(docs.Templates) == 0 {
		errs = append(errs, fmt.Errorf("no FirmwareTemplate in %s", strings.Join(files, ", ")))
	}
	errs = append(errs, docs.duplicates()...)
	return docs, errors.Join(errs...)
}

func (d *Documents) read(file string, text []byte) (errs []error) {
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
		for _, p := range d.document(node.Content[0]) {
			errs = append(errs, fmt.Errorf("%s:%d: %s", file, lineOf(node.Content[0], p.path), p.text))
		}
	}
}

// problem is something wrong at a path of a document, such as "spec.devices[0].version".
type problem struct{ path, text string }

func (d *Documents) document(node *goyaml.Node) []problem {
	text, err := goyaml.Marshal(node)
	if err != nil {
		return []problem{{"", err.Error()}}
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return []problem{{"", err.Error()}}
	}
	var header struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(raw, &header); err != nil {
		return []problem{{"", err.Error()}}
	}
	if header.APIVersion != v1alpha1.GroupVersion.String() {
		return []problem{{"apiVersion", fmt.Sprintf("apiVersion is %q, want %q", header.APIVersion, v1alpha1.GroupVersion)}}
	}
	switch header.Kind {
	case "FirmwareTemplate":
		var t v1alpha1.FirmwareTemplate
		problems := append(strict(raw, &t), checkTemplate(t)...)
		d.Templates = append(d.Templates, t)
		return problems
	case "FirmwareSource":
		var s v1alpha1.FirmwareSource
		problems := append(strict(raw, &s), checkSource(s)...)
		d.Sources = append(d.Sources, s)
		return problems
	default:
		return []problem{{"kind", fmt.Sprintf("kind is %q, want FirmwareTemplate or FirmwareSource", header.Kind)}}
	}
}

// quotedPath finds the path in what the strict decoder says, such as: unknown field "spec.devise".
var quotedPath = regexp.MustCompile(`field "([^"]+)"`)

func strict(raw []byte, into any) []problem {
	unknown, err := kjson.UnmarshalStrict(raw, into)
	var out []problem
	if err != nil {
		path := ""
		if _, after, ok := strings.Cut(err.Error(), " into Go struct field "); ok {
			if _, field, ok := strings.Cut(after, "."); ok {
				path, _, _ = strings.Cut(field, " ")
			}
		}
		out = append(out, problem{path, err.Error()})
	}
	for _, u := range unknown {
		path := ""
		if m := quotedPath.FindStringSubmatch(u.Error()); m != nil {
			path = m[1]
		}
		out = append(out, problem{path, u.Error()})
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

func (d *Documents) duplicates() []error {
	var errs []error
	seen := map[string]bool{}
	for _, name := range d.names() {
		if seen[name] {
			errs = append(errs, fmt.Errorf("%s is given twice", name))
		}
		seen[name] = true
	}
	return errs
}

func (d *Documents) names() []string {
	var out []string
	for _, t := range d.Templates {
		out = append(out, "FirmwareTemplate "+t.Name)
	}
	for _, s := range d.Sources {
		out = append(out, "FirmwareSource "+s.Name)
	}
	return out
}
