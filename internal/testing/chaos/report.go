package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Report is what a campaign found.
type Report struct {
	// Seed is the first seed.
	Seed uint64 `json:"seed"`
	// Boundaries of the transaction that were broken, over all scenarios.
	Boundaries int `json:"boundaries"`
	// Runs of the real engine, and Points the boundaries they passed. Failed is how many violated an invariant.
	Runs   int `json:"runs"`
	Points int `json:"points"`
	Failed int `json:"failed"`
	// Violations with their minimal traces, at most some.
	Violations []Finding `json:"violations"`
	// Campaigns counts the runs of each, Faults those of each kind that were planned, Ends how the jobs ended.
	Campaigns map[string]int `json:"campaigns"`
	Faults    map[Kind]int   `json:"faults"`
	Ends      map[string]int `json:"ends"`
	// UpperBound95 bounds the probability of a violation in a random run with a confidence of 95 %: 3/n after n without one. It is absent
	// where nothing was run or something was found.
	UpperBound95 float64 `json:"upperBound95,omitempty"`
	Seconds      float64 `json:"seconds"`
	// Interrupted says that not all was run.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Finding is a violation with what is needed to reproduce it.
type Finding struct {
	Invariant string `json:"invariant"`
	Message   string `json:"message"`
	Campaign  string `json:"campaign"`
	Seed      uint64 `json:"seed,omitempty"`
	// Boundary that was broken, for the campaign of that name.
	Boundary string `json:"boundary,omitempty"`
	// Kept is the run as it is kept for ever.
	Kept *Kept `json:"kept,omitempty"`
	// Trace lists what happened, oldest first.
	Trace []string `json:"trace"`
}

func newReport(o Options) *Report {
	return &Report{
		Seed: o.Seed, Violations: []Finding{}, Campaigns: map[string]int{}, Faults: map[Kind]int{}, Ends: map[string]int{},
	}
}

func finding(t trial, out Outcome) Finding {
	v := out.Violations[0]
	return Finding{
		Invariant: v.Invariant, Message: v.Message, Campaign: t.campaign, Seed: t.seed, Boundary: t.boundary,
		Kept: keep(t), Trace: out.Trace,
	}
}

func (r *Report) add(f Finding) {
	if len(r.Violations) < maxFindings {
		r.Violations = append(r.Violations, f)
	}
}

func (r *Report) finish(took time.Duration) {
	r.Seconds = took.Seconds()
	found := slices.ContainsFunc(r.Violations, func(f Finding) bool { return f.Campaign == CampaignRandom })
	if n := r.Campaigns[CampaignRandom]; n > 0 && !found {
		r.UpperBound95 = 3 / float64(n)
	}
}

// Summary describes for people what was found.
func (r *Report) Summary(w io.Writer) {
	fmt.Fprintf(w, "%d boundaries, %d runs of the engine through %d boundaries in all", r.Boundaries, r.Runs, r.Points)
	fmt.Fprintf(w, ", %d random, in %.0f s.\n", r.Campaigns[CampaignRandom], r.Seconds)
	for _, end := range slices.Sorted(maps.Keys(r.Ends)) {
		fmt.Fprintf(w, "  %6d jobs ended %s\n", r.Ends[end], end)
	}
	if r.UpperBound95 > 0 {
		fmt.Fprintf(w, "At most %.2g of all random runs violate an invariant, with a confidence of 95 %%.\n", r.UpperBound95)
	}
	if len(r.Violations) == 0 {
		fmt.Fprintln(w, "No invariant was violated.")
		return
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "\n%s violated (%s, seed %d%s): %s\n", v.Invariant, v.Campaign, v.Seed, v.at(), v.Message)
		for _, line := range v.Trace {
			fmt.Fprintln(w, "  "+line)
		}
	}
	fmt.Fprintf(w, "\n%d violations. Keep each as docs/adr/0012-crash-campaigns.md says.\n", max(r.Failed, len(r.Violations)))
}

func (f Finding) at() string {
	if f.Boundary == "" {
		return ""
	}
	return ", " + f.Boundary
}
