package simhost

import (
	"bytes"
	"encoding/json"
	"strings"
)

// member and object are JSON with its members in order, as the tools print it.
type member struct {
	name  string
	value any
}

type object []member

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, '"'), m.name+`":`...), value...)
	}
	return append(out, '}'), nil
}

// What stands between a name and its value in the JSON libraries of the tools, json-c and json-glib.
const (
	colonC    = ":"
	colonGLib = " : "
)

// indented lays an object out in lines, as the tools do.
func indented(o object, colon string) string {
	var out bytes.Buffer
	raw, err := json.Marshal(o)
	if err == nil {
		err = json.Indent(&out, raw, "", "  ")
	}
	if err != nil {
		panic(err) // texts, numbers and lists of them always encode
	}
	return strings.ReplaceAll(out.String(), `": `, `"`+colon)
}
