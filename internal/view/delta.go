package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Delta is what changed in the grid.
type Delta struct {
	// Rows are new, or other than before, in order of name.
	Rows []Grouped `json:"rows"`
	Gone []string  `json:"gone,omitempty"`
}

// Grouped is a row with the value of the label that the page groups by.
type Grouped struct {
	*Row
	Group string `json:"group,omitempty"`
}

// Outage says since when the API server cannot be read, and why.
type Outage struct {
	Since *metav1.Time `json:"since"`
	Says  string       `json:"says,omitempty"`
}

// told is what one page was sent. The first it is sent is everything.
type told struct {
	// label is the one that the page groups by; empty for that of the racks, whichever it is then.
	label string
	// by is the label that the rows were sent with.
	by    string
	rows  map[string]*Row
	parts map[string][]byte
}

// differs reports whether a page would show the row otherwise than what it was told, grouped by the label.
func (t *told) differs(a, b *Row, label string) bool {
	return a == nil || a.State != b.State || a.Reason != b.Reason || a.Says != b.Says || a.Pool != b.Pool || a.Model != b.Model || a.Job != b.Job || a.Over != b.Over ||
		a.Steps != b.Steps || a.Version != b.Version || a.labels[t.by] != b.labels[label]
}

// next are the events that bring the page from what it was told to the picture; none where nothing is new.
func (t *told) next(p *Picture, outage Outage) (events []byte, err error) {
	var out bytes.Buffer
	d := Delta{Rows: []Grouped{}}
	label := cmp.Or(t.label, p.Rack)
	for name, row := range p.Rows {
		if t.differs(t.rows[name], row, label) {
			d.Rows = append(d.Rows, Grouped{row, row.labels[label]})
		}
	}
	for name := range t.rows {
		if p.Rows[name] == nil {
			d.Gone = append(d.Gone, name)
		}
	}
	slices.SortFunc(d.Rows, func(a, b Grouped) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(d.Gone)
	if t.parts == nil || len(d.Rows)+len(d.Gone) > 0 {
		err = write(&out, "nodes", d)
	}
	t.rows, t.by = p.Rows, label
	if t.parts == nil {
		t.parts = map[string][]byte{}
	}
	for _, part := range []struct {
		name string
		is   any
	}{{"summary", p.Summary}, {"pools", p.Pools}, {"versions", p.Versions}, {"needs", p.Needs}, {"outage", outage}} {
		var one bytes.Buffer
		if err := write(&one, part.name, part.is); err != nil {
			return nil, err
		}
		if !bytes.Equal(one.Bytes(), t.parts[part.name]) {
			t.parts[part.name] = one.Bytes()
			out.Write(one.Bytes())
		}
	}
	return out.Bytes(), err
}

// write appends a server-sent event.
func write(out *bytes.Buffer, name string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	fmt.Fprintf(out, "event: %s\ndata: %s\n\n", name, text)
	return nil
}

// outageOf is what the page is told of an outage.
func outageOf(since time.Time, says string) Outage {
	if since.IsZero() {
		return Outage{}
	}
	at := metav1.NewTime(since)
	return Outage{&at, says}
}
