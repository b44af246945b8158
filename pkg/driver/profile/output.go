package profile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
