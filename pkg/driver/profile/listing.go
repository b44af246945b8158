package profile

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Listing is a command that lists settings, and how its output is read: by lines, as members of a JSON object, or as elements of an XML document.
type Listing struct {
	Argv    []template
	Timeout time.Duration
	Exits   Exits
	// Groups are what the command is run for, once each. The name of a setting is that of its group, a dot, and what is listed.
	Groups []string
	// From is the text with which the part of the output begins that is read; empty for the whole.
	From string

	// Line has groups of the names of columns. A line that it does not match has to match one of Ignore. Values are separated by Separator.
	Line      *regexp.Regexp
	Ignore    []*regexp.Regexp
	Separator string

	// Members is the path of the object whose members are settings.
	Members []step
	// Are is the column of the value of a member or of an element.
	Are string

	// Elements is the name of the elements that are settings, at any depth.
	Elements string
	// Names are attributes: the name of a setting consists of those of the elements around it, and of its own.
	Names []string
	// Value are attributes, of which the first that an element has is its value.
	Value []string
	// Default and Values are paths below an element.
	Default, Values []string
}

// The columns of a listing.
const (
	columnName     = "name"
	columnCurrent  = "current"
	columnNext     = "next"
	columnDefault  = "default"
	columnValues   = "values"
	columnReadOnly = "readOnly"
)

// tells reports whether the listing has the column.
func (l Listing) tells(column string) bool {
	return l.Are == column || l.Line != nil && slices.Contains(l.Line.SubexpNames(), column)
}

// row is what is listed of one setting, by column.
type row struct {
	texts  map[string]string
	values []string
	// wrong is why the setting cannot be changed.
	wrong string
}

type rows map[string]*row

const (
	// maxSetting bounds a value, and maxName the name of a setting, in bytes, as the API does.
	maxSetting = 512
	maxName    = 128
)

// add adds what is listed of a setting.
func (r rows) add(name string, texts map[string]string, values ...string) error {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fmt.Errorf("%.200q is not the name of a setting", name)
	}
	if r[name] == nil {
		r[name] = &row{texts: map[string]string{}}
	}
	known := r[name]
	for column, text := range texts {
		text = strings.TrimSpace(text)
		if _, twice := known.texts[column]; twice {
			known.wrong = "the tool lists several settings of this name"
		}
		if column != columnReadOnly && (len(text) > maxSetting || !variables[settingValue].safe.MatchString(text)) {
			known.wrong = fmt.Sprintf("its value has more than %d bytes, or characters that cannot be printed", maxSetting)
		}
		known.texts[column] = text
	}
	known.values = append(known.values, values...)
	return nil
}

// parameters returns the settings in order of their names.
func (r rows) parameters(s Settings) []inventory.Parameter {
	tellsNext := slices.ContainsFunc(s.Read, func(l Listing) bool { return l.tells(columnNext) })
	var out []inventory.Parameter
	for _, name := range slices.Sorted(maps.Keys(r)) {
		of := r[name]
		p := inventory.Parameter{Name: name, ReadOnly: of.wrong, Needs: s.Activation, Disturbs: true}
		for column, reading := range map[string]*inventory.Reading{columnCurrent: &p.Current, columnNext: &p.Next, columnDefault: &p.Default} {
			if text, said := of.texts[column]; said && of.wrong == "" {
				*reading = inventory.Read(text)
			}
		}
		if tellsNext && !p.Next.Known {
			p.Next = p.Current // the tool says what waits, and nothing does
		}
		if of.texts[columnReadOnly] != "" && of.wrong == "" {
			p.ReadOnly = "the tool says that it cannot be changed"
		}
		p.Domain.Values = of.values
		if !p.Current.Known && !p.Next.Known && p.ReadOnly == "" {
			continue // a default of what the device does not have
		}
		out = append(out, p)
	}
	return out
}

// listed is what the commands of a profile said of all settings.
type listed struct {
	on  subject
	all []inventory.Parameter
	// document is the one with the elements, and latin that its tool spells it in ISO-8859-1.
	document []byte
	latin    bool
	elements []element
}

// into adds what the output lists.
func (l Listing) into(r rows, group string, out []byte, to *listed) (err error) {
	if group != "" {
		group += "."
	}
	switch {
	case l.Elements != "":
		if to.document, to.latin, err = asUTF8(out); err == nil {
			to.elements, err = l.walk(to.document)
		}
		for _, e := range to.elements {
			if err == nil && e.value != nil {
				err = r.add(e.name, e.texts, e.values...)
			}
		}
		return err
	case l.Line == nil:
		return l.members(r, group, out)
	case !utf8.Valid(out):
		return errors.New("the output is not UTF-8")
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimRight(line, " \t\r\n"); line == "" {
			continue
		}
		m := l.Line.FindStringSubmatchIndex(line)
		if m == nil {
			if slices.ContainsFunc(l.Ignore, func(p *regexp.Regexp) bool { return p.MatchString(line) }) {
				continue
			}
			return fmt.Errorf("%.200q is neither a setting nor to be ignored", line)
		}
		name, texts, values := "", map[string]string{}, []string(nil)
		for i, column := range l.Line.SubexpNames() {
			if column == "" || m[2*i] < 0 {
				continue
			}
			switch text := line[m[2*i]:m[2*i+1]]; column {
			case columnName:
				name = text
			case columnValues:
				values = strings.Split(text, l.Separator)
			default:
				texts[column] = text
			}
		}
		if err := r.add(group+name, texts, values...); err != nil {
			return err
		}
	}
	return nil
}

// members adds the members of an object. One that is null is no setting.
func (l Listing) members(r rows, group string, out []byte) error {
	d, err := parseOutput(JSON, out)
	if err != nil {
		return err
	}
	at := []*node{d.tree}
	for _, s := range l.Members {
		if at, err = s.from(at, subject{}); err != nil {
			return err
		}
		if len(at) == 0 {
			break
		}
	}
	if len(at) != 1 || at[0].named == nil {
		return errors.New("the object of the settings is not in the output")
	}
	for _, name := range slices.Sorted(maps.Keys(at[0].named)) {
		value := at[0].named[name][0]
		switch {
		case value.scalar:
			err = r.add(group+name, map[string]string{l.Are: value.text})
		case value.named != nil || value.list != nil:
			err = fmt.Errorf("the setting %q is not a single value", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// element is a setting in a document.
type element struct {
	name   string
	texts  map[string]string
	values []string
	// start and end are where it is, and value is where its value is; nil when it has none that is known.
	start, end int64
	value      []int64
}

// walk finds the elements of a document that are settings.
func (l Listing) walk(document []byte) ([]element, error) {
	d := xml.NewDecoder(bytes.NewReader(document))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-8 already
	var found []element
	var open *element
	var names, below []string // of all that is open, and of what is open below the setting
	var text strings.Builder
	for depth := 0; ; {
		start := d.InputOffset()
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return nil, fmt.Errorf("read XML: more than %d levels", maxDepth)
			}
			names = append(names, l.called(t))
			text.Reset()
			switch {
			case open != nil:
				below = append(below, t.Name.Local)
			case t.Name.Local == l.Elements:
				name := strings.Join(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" }), "|")
				open = &element{name: name, start: start, texts: map[string]string{}}
				l.value(t, document[start:d.InputOffset()], open)
			}
		case xml.EndElement:
			depth--
			names = names[:len(names)-1]
			switch path, said := strings.Join(below, "/"), strings.TrimSpace(text.String()); {
			case open == nil:
			case len(below) == 0:
				open.end = d.InputOffset()
				found, open = append(found, *open), nil
			default:
				if slices.Contains(l.Default, path) {
					open.texts[columnDefault] = said
				}
				if slices.Contains(l.Values, path) {
					open.values = append(open.values, said)
				}
				below = below[:len(below)-1]
			}
			text.Reset()
		case xml.CharData:
			text.Write(t)
		case xml.Directive:
			return nil, errors.New("read XML: document types are not supported")
		}
	}
}

// called is what an element adds to the names of the settings in it.
func (l Listing) called(t xml.StartElement) string {
	var parts []string
	for _, name := range l.Names {
		for _, a := range t.Attr {
			if a.Name.Local == name {
				parts = append(parts, strings.TrimSpace(a.Value))
			}
		}
	}
	return strings.Join(parts, "|")
}

var attribute = regexp.MustCompile(`\s([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')`)

// value finds the value of an element, and where in its tag it is.
func (l Listing) value(t xml.StartElement, tag []byte, e *element) {
	for _, name := range l.Value {
		for _, a := range t.Attr {
			if a.Name.Local != name {
				continue
			}
			for _, m := range attribute.FindAllSubmatchIndex(tag, -1) {
				if string(tag[m[2]:m[3]]) == name {
					from, to := max(m[4], m[6]), max(m[5], m[7])
					e.value = []int64{e.start + int64(from), e.start + int64(to)}
				}
			}
			e.texts[l.Are] = strings.TrimSpace(a.Value)
			return
		}
	}
}

// edit returns the document with the settings alone, as they are told to be.
func (l listed) edit(told []inventory.Setting) ([]byte, error) {
	var out bytes.Buffer
	done := int64(0)
	for _, e := range l.elements {
		out.Write(l.document[done:e.start])
		done = e.end
		i := slices.IndexFunc(told, func(s inventory.Setting) bool { return s.Name == e.name })
		if i < 0 || e.value == nil {
			continue
		}
		out.Write(l.document[e.start:e.value[0]])
		if err := xml.EscapeText(&out, []byte(told[i].Value)); err != nil {
			return nil, err
		}
		out.Write(l.document[e.value[1]:e.end])
	}
	out.Write(l.document[done:])
	if !l.latin {
		return out.Bytes(), nil
	}
	var latin []byte
	for _, c := range out.String() {
		if c > unicode.MaxLatin1 {
			return nil, fmt.Errorf("the document of the tool has no character %q", c)
		}
		latin = append(latin, byte(c))
	}
	return latin, nil
}

var declaresLatin = regexp.MustCompile(`(?i)^<\?xml[^>]*\sencoding\s*=\s*["']ISO-8859-1["']`)

// asUTF8 returns a document in UTF-8, and whether it was in ISO-8859-1, which it declares then.
func asUTF8(document []byte) ([]byte, bool, error) {
	if !declaresLatin.Match(document) {
		if !utf8.Valid(document) {
			return nil, false, errors.New("the output is not UTF-8")
		}
		return document, false, nil
	}
	var out []byte
	for _, c := range document {
		out = utf8.AppendRune(out, rune(c))
	}
	return out, true, nil
}
