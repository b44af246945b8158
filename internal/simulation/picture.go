package simulation

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

//go:embed picture.html
var pictureHTML string

var pictureTemplate = template.Must(template.New("picture").Funcs(template.FuncMap{
	"thousands": thousands,
	"lower":     strings.ToLower,
}).Parse(pictureHTML))

// page is what the template shows.
type page struct {
	Title, Summary, Left string
	Report               Report
	Pools                []poolView
	Assumptions          []row
}

// poolView is the section of one policy.
type poolView struct {
	PolicyReport
	Headline string
	Zone     string
	Chart    chart
	Rows     []row
	Waits    []wait
}

type row struct{ Name, Value string }

type wait struct {
	Reason string
	WaitCount
}

// WritePicture writes the rollout as one HTML file that needs nothing else.
func (r *Result) WritePicture(w io.Writer) error {
	p := page{Title: "Rollout of " + count(r.Report.Nodes, "node"), Report: r.Report, Summary: r.summary(), Left: r.left(), Assumptions: r.assumptions()}
	for i, pool := range r.pools {
		p.Pools = append(p.Pools, r.view(pool, r.Report.Policies[i]))
	}
	if err := pictureTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// summary is the answer in one paragraph.
func (r *Result) summary() string {
	took, done, waves, idle := about(r.Report.End.Sub(r.Report.Start)), 0, "", true
	for _, p := range r.Report.Policies {
		idle = idle && p.nothingDue()
		done += p.Done
		if p.Bounds["waves"] > 0 {
			waves = " in the same waves"
		}
	}
	switch {
	case idle && len(r.Report.NotDue) > 0:
		return fmt.Sprintf("Nothing is to be updated on the %s, though not every device runs the firmware that is desired: %s.", count(r.Report.Nodes, "node"), r.Report.NotDue)
	case idle:
		return fmt.Sprintf("Nothing is to be updated on the %s: no device with desired firmware runs another version.", count(r.Report.Nodes, "node"))
	case r.Report.Ending == Complete:
		return fmt.Sprintf("All %s run the new firmware after %s. No order of the same jobs%s could be faster than %s.", count(r.Report.Nodes, "node"),
			about(inSeconds(r.Report.Makespan)), waves, about(inSeconds(r.Report.LowerBound)))
	case r.Report.Ending == Stuck:
		return fmt.Sprintf("The rollout stops after %s with %s of %s done: no job runs, and nothing that happens by itself lets one go.",
			took, thousands(done), count(r.Report.Nodes, "node"))
	}
	return fmt.Sprintf("After %s, the end of what was simulated, %s of %s are done.", took, thousands(done), count(r.Report.Nodes, "node"))
}

// left says which devices no rollout updates, where others are updated; empty for none.
func (r *Result) left() string {
	if len(r.Report.NotDue) == 0 || !slices.ContainsFunc(r.Report.Policies, func(p PolicyReport) bool { return !p.nothingDue() }) {
		return ""
	}
	return fmt.Sprintf("Left out though they do not run the firmware that is desired: %s.", r.Report.NotDue)
}

func (r *Result) view(p *pool, report PolicyReport) poolView {
	zone := r.zone(report.Name)
	end := r.Report.End
	if report.Finished != nil {
		end = *report.Finished
	}
	if !end.After(r.Report.Start) {
		end = r.Report.Start.Add(time.Minute)
	}
	s := scale{from: r.Report.Start, to: end.Add(end.Sub(r.Report.Start) / 50), left: left, right: right, zone: zone}
	v := poolView{PolicyReport: report, Zone: zone.String(), Chart: newChart(p, s, r.spans(p, s))}
	at := func(t time.Time) string { return t.In(zone).Format("Mon 2 Jan 2006 15:04 MST") }
	v.Rows = append(v.Rows,
		row{"nodes done", fmt.Sprintf("%s of %s", thousands(report.Done), thousands(report.Nodes))},
		row{"start", at(r.Report.Start)})
	if report.Finished != nil {
		v.Rows = append(v.Rows, row{"last job ended", at(*report.Finished)}, row{"took", about(inSeconds(report.Makespan))})
		v.Headline = "done after " + about(inSeconds(report.Makespan))
	} else {
		v.Headline = fmt.Sprintf("%s of %s done, not finished", thousands(report.Done), thousands(report.Nodes))
	}
	if report.nothingDue() {
		v.Headline = "nothing to update"
	}
	if len(report.Bounds) > 0 {
		v.Rows = append(v.Rows, row{"lower bound", about(inSeconds(report.LowerBound)) + " (" + boundsText(report.Bounds) + ")"})
	}
	if report.Ratio > 0 {
		v.Rows = append(v.Rows, row{"ratio", fmt.Sprintf("it took %.3f times the lower bound", report.Ratio)})
	}
	j := report.Jobs
	v.Rows = append(v.Rows,
		row{"budget", fmt.Sprintf("%s; most unavailable at once: %s", count(report.Budget, "node"), thousands(report.PeakUnavailable))},
		row{"jobs", fmt.Sprintf("%s admitted: %s succeeded, %s failed for a reason that passes, %s held, %s rolled back",
			thousands(j.Admitted), thousands(j.Succeeded), thousands(j.Failed), thousands(j.Held), thousands(j.RolledBack))},
		row{"the policy says at the end", report.Ready})
	v.Rows = append(v.Rows, p.haltRows(at)...)
	for _, reason := range slices.Sorted(maps.Keys(report.Waiting)) {
		v.Waits = append(v.Waits, wait{string(reason), report.Waiting[reason]})
	}
	return v
}

// boundsText lists the bounds, the deciding one first.
func boundsText(bounds map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(bounds), func(a, b string) int {
		if bounds[a] != bounds[b] {
			return int(bounds[b] - bounds[a])
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, n := range names {
		out = append(out, n+" "+about(inSeconds(bounds[n])))
	}
	return strings.Join(out, ", ")
}

// assumptions lists what was given.
func (r *Result) assumptions() []row {
	w := r.Options.Work
	return []row{
		{"seed", fmt.Sprint(r.Options.Seed)},
		{"time in maintenance", byModel(w.Duration, about) + fmt.Sprintf(", varying by %s", percent(w.Spread))},
		{"slow boots", fmt.Sprintf("%s of the jobs, %s longer", percent(w.SlowBoot), about(w.SlowBootFor))},
		{"failures that pass", byModel(w.Failure, percent)},
		{"failures that hold the node", byModel(w.Held, percent)},
		{"images that make a node unhealthy", byModel(w.BadImage, percent)},
		{"a person acts after", person(w.Person)},
		{"other outages", fmt.Sprintf("%g for each node in 30 days, %s on average", w.Outages, about(w.OutageFor))},
		{"decisions", fmt.Sprintf("%s, %s after the end of a job at the latest", thousands(r.Report.Passes), about(w.Reaction))},
	}
}

func person(d time.Duration) string {
	if d == 0 {
		return "never"
	}
	return about(d) + " on average"
}

func byModel[T any](b ByModel[T], show func(T) string) string {
	out := show(b.Default)
	for _, m := range slices.Sorted(maps.Keys(b.Models)) {
		out += fmt.Sprintf(", %s: %s", m, show(b.Models[m]))
	}
	return out
}

func percent(f float64) string { return fmt.Sprintf("%.4g %%", f*100) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// zone is the time zone in which a policy is shown: that of its first window.
func (r *Result) zone(name string) *time.Location {
	for i := range r.Options.Policies {
		spec := &r.Options.Policies[i].Spec
		if r.Options.Policies[i].Name != name {
			continue
		}
		for _, w := range spec.Windows {
			if zone, err := time.LoadLocation(w.TimeZone); err == nil && w.TimeZone != "" {
				return zone
			}
		}
	}
	return time.UTC
}

// spans are the rows below the chart of a pool.
func (r *Result) spans(p *pool, s scale) []spans {
	return append(append(p.waveSpans(), p.versionSpans(r.Report.End)...), calendarSpans(p.policy().Calendar, s.from, s.to, s.zone)...)
}
