package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// IndexSchema is the value of the member "schema" of an index, which comes first.
const IndexSchema = "nodefirmware.io/catalog/v1"

// Index reads a JSON index: an object with the members "schema" and then "versions", a list of entries, in the order in which they are to
// be listed. Members that are not known are an error, so that a restriction of a later schema is not overlooked.
type Index struct {
	// JSON after decompression.
	JSON   io.Reader
	Limits Limits
}

// Discover reads the index once, one entry at a time.
func (p Index) Discover(ctx context.Context, q Query, emit Emit) error {
	limits := p.Limits.orDefaults()
	in := &quota{r: &counted{r: p.JSON, left: limits.Bytes}, left: maxToken}
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	for _, want := range []json.Token{json.Delim('{'), "schema", IndexSchema, "versions", json.Delim('[')} {
		if got, err := d.Token(); err != nil {
			return jsonFault(d, err)
		} else if got != want {
			return fault(InvalidCatalog, "parse index at byte %d: %.80q, want %q", d.InputOffset(), spell(got), spell(want))
		}
	}
	for n := 0; d.More(); n++ {
		if n == limits.Entries {
			return fault(InvalidCatalog, "parse index: more than %d entries; divide it by machine models", limits.Entries)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		in.left = maxToken
		var e Entry
		if err := d.Decode(&e); err != nil {
			return jsonFault(d, err)
		}
		if err := e.offer(q, emit); err != nil {
			return err
		}
	}
	for _, want := range []json.Token{json.Delim(']'), json.Delim('}')} {
		if got, err := d.Token(); err != nil {
			return jsonFault(d, err)
		} else if got != want {
			return fault(InvalidCatalog, "parse index at byte %d: %.80q, want %q", d.InputOffset(), spell(got), spell(want))
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault(InvalidCatalog, "parse index at byte %d: more after the end of the object", d.InputOffset())
	}
	return nil
}

func spell(t json.Token) string {
	if d, ok := t.(json.Delim); ok {
		return d.String()
	}
	out, _ := json.Marshal(t) // a token is a delimiter or a plain value
	return strings.Trim(string(out), `"`)
}

func jsonFault(d *json.Decoder, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var known *Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		strings.HasPrefix(err.Error(), "json: "):
		return fault(InvalidCatalog, "parse index at byte %d: %w", d.InputOffset(), err)
	}
	return fault(DownloadFailed, "read index at byte %d: %w", d.InputOffset(), err)
}

// quota bounds how much is read before left is set again, so that one entry cannot fill the memory.
type quota struct {
	r    io.Reader
	left int
}

func (q *quota) Read(p []byte) (int, error) {
	if q.left <= 0 {
		return 0, fault(InvalidCatalog, "parse index: an entry is longer than %d bytes", maxToken)
	}
	n, err := q.r.Read(p[:min(len(p), q.left)])
	q.left -= n
	return n, err
}
