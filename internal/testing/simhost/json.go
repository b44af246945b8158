package simhost

import (
	"encoding/json"
	"strings"
)

// member and object are JSON with its members in order, as the tools print it.
type member struct {
	name  string
	value any
}

type object []member

// jsonStyle is how a JSON library lays out text.
type jsonStyle struct{ colon string }

var (
	jsonC    = jsonStyle{":"}   // json-c, JSON_C_TO_STRING_PRETTY
	jsonGLib = jsonStyle{" : "} // json-glib, pretty
)

// format lays out objects, lists of any, strings and numbers.
func (j jsonStyle) format(v any) string {
	var b strings.Builder
	j.write(&b, v, "")
	return b.String()
}

func (j jsonStyle) write(b *strings.Builder, v any, indent string) {
	inner := indent + "  "
	switch v := v.(type) {
	case object:
		b.WriteString("{")
		for i, m := range v {
			b.WriteString(separator(i) + inner + quote(m.name) + j.colon)
			j.write(b, m.value, inner)
		}
		b.WriteString("\n" + indent + "}")
	case []any:
		b.WriteString("[")
		for i, e := range v {
			b.WriteString(separator(i) + inner)
			j.write(b, e, inner)
		}
		if len(v) > 0 {
			b.WriteString("\n" + indent)
		}
		b.WriteString("]")
	case string:
		b.WriteString(quote(v))
	default:
		text, _ := json.Marshal(v) // numbers only
		b.Write(text)
	}
}

func separator(i int) string {
	if i == 0 {
		return "\n"
	}
	return ",\n"
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return strings.TrimSuffix(b.String(), "\n")
}
