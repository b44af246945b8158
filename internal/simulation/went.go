package simulation

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// went is the nodes that went in one wave with one update, coming from one version.
type went struct {
	schedule.Edge
	wave              string
	succeeded, failed int
	// began is when the first of them was admitted, proven when the first one succeeded, and ended when the last verdict came.
	began, proven, ended time.Time
}

// admitted notes that a node begins with the updates of a job, in the waves that are open now. It is nil where no update is followed.
func (p *pool) admitted(edges []schedule.JobEdge, now time.Time) []*went {
	out := make([]*went, len(edges))
	for i, e := range edges {
		at := slices.IndexFunc(p.outcome().Rollouts, func(r schedule.RolloutState) bool { return r.Target == e.Target })
		if at < 0 {
			continue
		}
		wave := p.outcome().Rollouts[at].Wave
		for _, w := range p.went {
			if w.Edge == e.Edge && w.wave == wave {
				out[i] = w
			}
		}
		if out[i] == nil {
			out[i] = &went{Edge: e.Edge, wave: wave, began: now}
			p.went = append(p.went, out[i])
		}
	}
	return out
}

// judged notes the verdict of a job.
func (w *went) judged(v schedule.Verdict, now time.Time) {
	if w == nil || v != schedule.Succeeded && v != schedule.Failed {
		return
	}
	w.ended = now
	if v == schedule.Failed {
		w.failed++
		return
	}
	w.succeeded++
	if w.proven.IsZero() {
		w.proven = now
	}
}

// WaveReport says how the nodes that came from one version went in one wave of an update.
type WaveReport struct {
	Update string `json:"update"`
	Wave   string `json:"wave"`
	// From is the version that the nodes ran.
	From string `json:"from"`
	// Succeeded and Failed count verdicts: a node that failed and was tried again has two.
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	// Began is when the first of them was admitted, Proven when the first one succeeded, after which others go at the same time, and Ended
	// when the last verdict came.
	Began  time.Time  `json:"began"`
	Proven *time.Time `json:"proven,omitempty"`
	Ended  *time.Time `json:"ended,omitempty"`
}

// waves are what went in waves, by update and in order of time.
func (p *pool) waves() (out []WaveReport) {
	all := slices.SortedStableFunc(slices.Values(p.went), func(a, b *went) int {
		return cmp.Or(a.Target.Compare(b.Target), a.began.Compare(b.began))
	})
	given := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	for _, w := range all {
		out = append(out, WaveReport{
			Update: w.Target.String(), Wave: w.wave, From: w.From, Succeeded: w.succeeded, Failed: w.failed, Began: w.began, Proven: given(w.proven), Ended: given(w.ended),
		})
	}
	return out
}

// versionSpans are for each update that comes from several versions a row for each of these: its nodes go one at a time until one has
// succeeded, and then as the waves do.
func (p *pool) versionSpans(end time.Time) (out []spans) {
	for _, f := range p.followed {
		type row struct {
			spans
			proven bool
		}
		rows := map[string]*row{}
		for _, w := range p.went {
			if w.Target != f.target {
				continue
			}
			of := rows[w.From]
			if of == nil {
				of = &row{spans: spans{label: fmt.Sprintf("%s from %s", f.target, cmp.Or(w.From, "an unknown version"))}}
				rows[w.From] = of
			}
			of.list = append(of.list, w.spans(!of.proven, end)...)
			of.proven = of.proven || !w.proven.IsZero()
		}
		for _, from := range sortedKeys(rows)[:min(len(rows), maxFollowed)] {
			if len(rows) > 1 {
				out = append(out, rows[from].spans)
			}
		}
	}
	return out
}

// spans are the time in which the nodes went. They begin with the first one alone where none had succeeded before.
func (w *went) spans(first bool, end time.Time) (out []span) {
	until := func(t time.Time) time.Time {
		if t.IsZero() {
			return end
		}
		return t
	}
	from := w.began
	if first {
		out = append(out, span{from: from, to: until(w.proven), class: "first", name: w.wave, title: fmt.Sprintf("from %s in wave %s, one node at a time", w.From, w.wave)})
		from = until(w.proven)
	}
	if to := until(w.ended); to.After(from) {
		out = append(out, span{from: from, to: to, class: "wave", name: w.wave,
			title: fmt.Sprintf("from %s in wave %s: %d succeeded, %d failed", w.From, w.wave, w.succeeded, w.failed)})
	}
	return out
}

// Waves prints which nodes went in which wave, by the version that they ran.
func (r *Result) Waves(w io.Writer) {
	for _, p := range r.Report.Policies {
		if len(p.Waves) == 0 {
			_, _ = fmt.Fprintf(w, "Policy %s has neither waves nor a halt, or no node of it was admitted.\n", p.Name)
			continue
		}
		zone := r.zone(p.Name)
		_, _ = fmt.Fprintf(w, "Waves of policy %s, times in %s:\n", p.Name, zone)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "  UPDATE\tWAVE\tFROM\tSUCCEEDED\tFAILED\tBEGAN\tFIRST SUCCESS\tENDED")
		at := func(t *time.Time) string {
			if t == nil {
				return "-"
			}
			return t.In(zone).Format("Mon 2 Jan 15:04")
		}
		for _, v := range p.Waves {
			_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Update, v.Wave, cmp.Or(v.From, "?"), thousands(v.Succeeded), thousands(v.Failed),
				at(&v.Began), at(v.Proven), at(v.Ended))
		}
		_ = table.Flush()
	}
}
