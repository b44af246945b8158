package profile

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// reader reads nodes of a YAML document and collects the problems in them, each with its position.
type reader struct {
	file     string
	problems []error
	// ofSettings are the variables of settings that a command may have which is being read.
	ofSettings []string
}

func (r *reader) refuse(n *yaml.Node, path, format string, args ...any) {
	place := fmt.Sprintf("%s:%d", r.file, n.Line)
	if path != "" {
		place += ": " + path
	}
	r.problems = append(r.problems, fmt.Errorf("%s: %s", place, fmt.Sprintf(format, args...)))
}

// fields says what to do with each field of a mapping.
type fields map[string]func(n *yaml.Node, path string)

// mapping reads a mapping that may have only the known fields. It returns the nodes of those present.
func (r *reader) mapping(n *yaml.Node, path string, known fields, required ...string) map[string]*yaml.Node {
	seen := map[string]*yaml.Node{}
	r.pairs(n, path, func(key, value *yaml.Node, at string) {
		read, ok := known[key.Value]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			r.refuse(key, at, "no such field; the known fields are %s", strings.Join(names, ", "))
			return
		}
		seen[key.Value] = value
		read(value, at)
	})
	for _, name := range required {
		if seen[name] == nil {
			r.refuse(n, join(path, name), "is required")
		}
	}
	return seen
}

func (r *reader) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		r.refuse(n, path, "want fields with values")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := join(path, key.Value)
		if key.Kind != yaml.ScalarNode || seen[key.Value] {
			r.refuse(key, at, "occurs twice, or is not a plain name")
			continue
		}
		seen[key.Value] = true
		each(key, n.Content[i+1], at)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (r *reader) items(n *yaml.Node, path string, each func(n *yaml.Node, at string)) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.refuse(n, path, "want a list that is not empty")
		return
	}
	for i, item := range n.Content {
		each(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

// text reads a string; a value that YAML takes for a number or a boolean has to be quoted.
func (r *reader) text(n *yaml.Node, path string) string {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
		r.refuse(n, path, "want a string: put it in quotes")
		return ""
	case strings.TrimSpace(n.Value) == "":
		r.refuse(n, path, "must not be empty")
	}
	return n.Value
}

func (r *reader) texts(n *yaml.Node, path string) (out []string) {
	r.items(n, path, func(n *yaml.Node, at string) { out = append(out, r.text(n, at)) })
	return out
}

func (r *reader) matching(n *yaml.Node, path string, pattern *regexp.Regexp, want string) string {
	s := r.text(n, path)
	if s != "" && !pattern.MatchString(s) {
		r.refuse(n, path, "%q: want %s", s, want)
	}
	return s
}

func (r *reader) duration(n *yaml.Node, path string) time.Duration {
	const longest = 6 * time.Hour
	d, err := time.ParseDuration(r.text(n, path))
	if err != nil || d < time.Second || d > longest {
		r.refuse(n, path, "%q: want a time from 1s to %s, such as 20m", n.Value, longest)
	}
	return d
}

func (r *reader) truth(n *yaml.Node, path string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		r.refuse(n, path, "want true or false")
	}
	return n.Value == "true"
}

func (r *reader) code(n *yaml.Node, path string) int {
	code, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || code < 0 || code > 255 {
		r.refuse(n, path, "%q: want an exit code from 0 to 255", n.Value)
	}
	return code
}

func (r *reader) number(n *yaml.Node, path string) int {
	index, err := strconv.Atoi(n.Value)
	if err != nil || index < 0 {
		r.refuse(n, path, "%q: want an index from 0", n.Value)
		return 0
	}
	return index
}

// priority reads the priority of a step.
func (r *reader) priority(n *yaml.Node, path string) int32 {
	priority, err := strconv.ParseInt(n.Value, 10, 32)
	if err != nil || priority < 0 {
		r.refuse(n, path, "%q: want a whole number from 0", n.Value)
	}
	return int32(priority)
}

// pattern reads a regular expression with one group.
func (r *reader) pattern(n *yaml.Node, path string) *regexp.Regexp {
	p := r.expression(n, path)
	switch {
	case p == nil:
		return nil
	case p.NumSubexp() != 1:
		r.refuse(n, path, "has %d groups: put parentheses only around the value, and use (?:...) elsewhere", p.NumSubexp())
		return nil
	}
	return p
}

func (r *reader) expression(n *yaml.Node, path string) *regexp.Regexp {
	p, err := regexp.Compile(r.text(n, path))
	if err != nil {
		r.refuse(n, path, "%v", err)
		return nil
	}
	return p
}

// expressions reads a list of them, each as a part of the form.
func (r *reader) expressions(n *yaml.Node, path, form string) (out []*regexp.Regexp) {
	r.items(n, path, func(n *yaml.Node, at string) {
		if p := r.expression(n, at); p != nil {
			out = append(out, regexp.MustCompile(fmt.Sprintf(form, p)))
		}
	})
	return out
}

func (r *reader) template(n *yaml.Node, path string) template {
	t, err := parseTemplate(r.text(n, path))
	if err != nil {
		r.refuse(n, path, "%v", err)
	}
	if name := using([]template{t}, func(name string) bool {
		return strings.HasPrefix(name, "setting") && !slices.Contains(r.ofSettings, name)
	}); name != "" {
		r.refuse(n, path, "{{%s}} cannot be used here", name)
	}
	return t
}

// oneOf reads one of several names.
func oneOf[T any](r *reader, n *yaml.Node, path string, names []string, values []T) (value T) {
	s := r.text(n, path)
	if i := slices.Index(names, s); i >= 0 {
		return values[i]
	}
	r.refuse(n, path, "%q: want %s", s, strings.Join(names, ", "))
	return value
}

func (r *reader) activation(n *yaml.Node, path string, kinds ...inventory.Activation) inventory.Activation {
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, k.String())
	}
	return oneOf(r, n, path, names, kinds)
}

// plain refuses anchors and aliases, which make a document mean something else than it appears to.
func (r *reader) plain(n *yaml.Node) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		r.refuse(n, "", "anchors and aliases are not supported: write the value out")
	}
	for _, c := range n.Content {
		r.plain(c)
	}
}

func (r *reader) err() error { return errors.Join(r.problems...) }

// maxValue bounds a value in bytes; maxVersion one that is a version.
const (
	maxValue   = 128
	maxVersion = 64
)

type document struct {
	text string
	tree *node
}

func parseOutput(format Format, out []byte) (document, error) {
	if !utf8.Valid(out) {
		return document{}, errors.New("the output is not UTF-8")
	}
	d := document{text: string(out)}
	var err error
	switch format {
	case JSON:
		d.tree, err = parseJSON(out)
	case XML:
		d.tree, err = parseXML(out)
	case Regex:
	}
	return d, err
}

// read returns the values of the fields in the output. A missing field that is not optional is an error.
func (q Query) read(out []byte, of subject) (map[string]string, error) {
	d, err := parseOutput(q.Format, out)
	if err != nil {
		return nil, err
	}
	if err := d.meets(q.Expect, of); err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(q.Fields)) { // so that the same output always gives the same error
		f := q.Fields[name]
		value, found, err := d.field(f, of)
		switch {
		case err != nil:
			return nil, fmt.Errorf("find %s: %w", name, err)
		case found:
			values[name] = value
		case !f.Optional:
			return nil, fmt.Errorf("find %s: it is not in the output", name)
		}
	}
	return values, nil
}

// meets returns an error for the first expectation that the output does not meet.
func (d document) meets(expectations []Expectation, of subject) error {
	for i, e := range expectations {
		value, found, err := d.field(e.Field, of)
		switch {
		case err != nil:
			return fmt.Errorf("find expect[%d]: %w", i, err)
		case !found:
			return fmt.Errorf("find expect[%d]: it is not in the output", i)
		case !slices.Contains(e.Is, value):
			return fmt.Errorf("the tool reports %q, not %s", value, strings.Join(e.Is, " or "))
		}
	}
	return nil
}

func (d document) field(f Field, of subject) (value string, found bool, err error) {
	value = d.text
	if f.Path != nil {
		if value, found, err = d.tree.value(f.Path, of); err != nil || !found {
			return "", false, err
		}
	}
	if f.Pattern != nil {
		matches := f.Pattern.FindAllStringSubmatch(value, 2)
		if len(matches) == 0 {
			return "", false, nil
		}
		value = matches[0][1]
		if len(matches) > 1 && matches[1][1] != value {
			return "", false, fmt.Errorf("the pattern finds both %q and %q: make it match only one", value, matches[1][1])
		}
	}
	value = string(inventory.NormalizeVersion(value))
	switch {
	case value == "":
		return "", false, nil
	case len(value) > maxValue:
		return "", false, fmt.Errorf("the value has %d bytes, which is too long", len(value))
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", false, fmt.Errorf("%q has characters that cannot be printed", value)
	}
	return value, true, nil
}
