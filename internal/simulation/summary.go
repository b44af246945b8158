package simulation

import (
	"fmt"
	"io"
)

// Summarize prints the answer in a few lines.
func (r *Result) Summarize(w io.Writer) {
	_, _ = fmt.Fprintln(w, r.summary())
	if left := r.left(); left != "" {
		_, _ = fmt.Fprintln(w, left)
	}
	for _, p := range r.Report.Policies {
		if p.nothingDue() {
			_, _ = fmt.Fprintf(w, "  %s: nothing to update on its %s\n", p.Name, count(p.Nodes, "node"))
			continue
		}
		line := fmt.Sprintf("%s of %s done", thousands(p.Done), count(p.Nodes, "node"))
		if p.Finished != nil {
			line = fmt.Sprintf("%s done after %s, ratio %.3f to the lower bound", count(p.Nodes, "node"), about(inSeconds(p.Makespan)), p.Ratio)
		}
		_, _ = fmt.Fprintf(w, "  %s: %s; at most %s unavailable at once, budget %s\n", p.Name, line, thousands(p.PeakUnavailable), thousands(p.Budget))
		for _, reason := range sortedKeys(p.Waiting) {
			_, _ = fmt.Fprintf(w, "    %s: %s. %s\n", count(p.Waiting[reason].Nodes, "node"), reason, p.Waiting[reason].Message)
		}
	}
}
