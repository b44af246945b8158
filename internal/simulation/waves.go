package simulation

import (
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// followed is what the picture shows of one update of a pool: its waves, and when it was halted.
type followed struct {
	target schedule.Target
	waves  []span
	halts  []span
}

// maxFollowed bounds the updates of a pool that the picture shows.
const maxFollowed = 8

// follow writes the record of the waves back, as the operator does with the ledger, and notes what the picture shows of it. A
// person looks after a halted update some time later.
func (r *run) follow(p *pool, o schedule.Outcome) {
	plan := &p.policy().Plan
	plan.Rollouts, plan.Resumed, plan.Judged, plan.Edited = plan.Rollouts[:0:0], o.Resumed, o.Judged, false
	halted := false
	for _, state := range o.Rollouts {
		p.phases(state.Target).follow(state.Rollout, plan)
		plan.Rollouts = append(plan.Rollouts, state.Rollout)
		halted = halted || state.Halted != nil
		p.draw(state, r.now)
	}
	if !halted || p.resumes || r.Work.Person == 0 {
		return
	}
	p.resumes = true
	p.halts++
	wait := exponential(r.chance(p.name, "resume", p.halts), r.Work.Person)
	p.part.events.add(r.now.Add(wait), func() {
		p.resumes = false
		plan.Resume = fmt.Sprintf("request %d", p.halts)
	})
}

// draw notes which wave is open, whether it soaks, and whether the update is halted.
func (p *pool) draw(s schedule.RolloutState, now time.Time) {
	at := -1
	for i := range p.followed {
		if p.followed[i].target == s.Target {
			at = i
		}
	}
	if at < 0 {
		if len(p.followed) == maxFollowed {
			return
		}
		at = len(p.followed)
		p.followed = append(p.followed, followed{target: s.Target})
	}
	f := &p.followed[at]
	wave := span{class: "wave", title: "wave " + s.Wave, name: s.Wave}
	switch {
	case !s.Soaks.IsZero():
		wave.class, wave.title = "soak", "wave "+s.Wave+" soaks"
	case s.Running+s.Waiting == 0:
		wave.class = ""
	}
	f.waves = continued(f.waves, wave, now)
	var halt span
	if s.Halted != nil {
		halt = span{class: "halt", title: s.Halted.Message}
	}
	f.halts = continued(f.halts, halt, now)
}

// continued ends the last span now, and begins the next one where it is not the same; one without a class is none.
func continued(list []span, next span, now time.Time) []span {
	if last := len(list) - 1; last >= 0 && list[last].open {
		list[last].to = now
		if list[last].class == next.class && list[last].title == next.title {
			return list
		}
		list[last].open = false
	}
	if next.class == "" || len(list) >= maxSpans {
		return list
	}
	next.from, next.to, next.open = now, now, true
	return append(list, next)
}

// waveSpans are the waves of each update of a pool, and below them its halts.
func (p *pool) waveSpans() (out []spans) {
	for _, f := range p.followed {
		out = append(out, spans{label: fmt.Sprintf("waves of %s", f.target), list: f.waves})
		if len(f.halts) > 0 {
			out = append(out, spans{label: fmt.Sprintf("halts of %s", f.target), list: f.halts})
		}
	}
	return out
}

// maxHalts bounds the halts of a pool that are told in words.
const maxHalts = 10

// haltRows say when updates of a pool were halted, for how long, and why.
func (p *pool) haltRows(at func(time.Time) string) (out []row) {
	for _, f := range p.followed {
		for _, h := range f.halts {
			until := "resumed after " + about(h.to.Sub(h.from))
			if h.open {
				until = "and not resumed"
			}
			out = append(out, row{"halted", fmt.Sprintf("%s, %s, %s: %s", f.target, at(h.from), until, h.title)})
		}
	}
	return out[:min(len(out), maxHalts)]
}
