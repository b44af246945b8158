package simulation

import (
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// phases are the waves that one update of a pool went through, for the lower bound.
type phases struct {
	list []phase
	// jobs are how long the jobs took that ended with a verdict about the update; anytime counts others that no window keeps.
	jobs    []time.Duration
	anytime int
	// wave is open, with the verdicts of the waves before and of all waves so far.
	wave         string
	before, last int
}

// phase is a wave that was followed by another one: how many verdicts it took at least, and how long after the last of them the next
// wave could open.
type phase struct {
	verdicts int
	soak     time.Duration
}

// phases are those of an update.
func (p *pool) phases(t schedule.Target) *phases {
	if p.waved == nil {
		p.waved = map[schedule.Target]*phases{}
	}
	if p.waved[t] == nil {
		p.waved[t] = &phases{}
	}
	return p.waved[t]
}

// judged notes that a job ended with a verdict, and how much of its time had to be in a window.
func (f *phases) judged(inside time.Duration) {
	if inside == 0 {
		f.anytime++
		return
	}
	f.jobs = append(f.jobs, inside)
}

// follow notes what the record of the update says. A verdict that a person cleared by a resume is not counted, and a record that was
// forgotten and begins anew is no wave that soaked.
func (f *phases) follow(r schedule.Rollout, plan *schedule.Plan) {
	if f.wave != "" && f.wave != r.Wave && r.Done >= f.before {
		f.list = append(f.list, phase{r.Done - f.before, soakOf(plan, f.wave)})
	}
	if f.wave != r.Wave {
		f.before = r.Done
	}
	f.wave, f.last = r.Wave, r.Done+r.Succeeded+r.Failed
}

// soakOf is how long a wave of the plan soaks.
func soakOf(plan *schedule.Plan, wave string) time.Duration {
	if i := slices.IndexFunc(plan.Waves, func(w schedule.Wave) bool { return w.Name == wave }); i >= 0 {
		return plan.Waves[i].Soak
	}
	return 0
}

// bound is when the last verdict came at the earliest, if each wave took the shortest jobs, as many at once as there are places, and
// the next one began when the one before had soaked; zero when the calendar does not open so often. A wave without a verdict soaks
// from the last verdict before it, together with the wave that had that one.
func (f *phases) bound(c *window.Calendar, start time.Time, places int) time.Time {
	each := slices.Sorted(slices.Values(f.jobs))
	at := start
	var soak, soaked, work time.Duration
	for _, phase := range append(slices.Clone(f.list), phase{verdicts: f.last - f.before}) {
		if phase.verdicts > 0 {
			at, soaked, soak = at.Add(soak), soaked+soak, 0
		}
		if n := min(phase.verdicts-f.anytime, len(each)); n > 0 {
			if at = rounds(c, at, each[:n], places); at.IsZero() {
				return at
			}
		}
		soak = max(soak, phase.soak)
	}
	if c != nil {
		return at
	}
	for _, took := range each {
		work += took
	}
	if together := start.Add(work/time.Duration(places) + soaked); together.After(at) {
		return together // no job with a verdict runs while a wave soaks
	}
	return at
}
