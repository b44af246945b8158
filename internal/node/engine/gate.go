package engine

import (
	"context"
	"errors"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// gate is what the looks of one health gate have found so far, by the monotonic clock of this process.
type gate struct {
	// lookedAt is when the last look was, and found what it found.
	lookedAt time.Duration
	found    finding
	// answering is how long the API server has answered in all, and complaining how long it has done so with no look that found
	// nothing worse. The time in which it gave no answer, or an error, counts in neither, and ends neither: a connection that
	// comes and goes must not keep the gate from its verdict.
	answering, complaining time.Duration
	// clean is how long every look has found nothing worse, from one that the API server answered.
	clean stretch
	// isolated is how long the API server has not answered while a device that the job changed had a complaint, without is how
	// long there has been no such complaint; until is when the host gives up.
	isolated, without stretch
	until             time.Time
	// bootTook is how long the boot took, once that is known.
	bootTook time.Duration
}

// finding is what a look of the gate found.
type finding int

const (
	// nothingFound: there was no look, or the host or the API server could not be read.
	nothingFound finding = iota
	// unanswered: the API server did not answer.
	unanswered
	// well and unwell: the API server answered, and nothing or something was worse.
	well
	unwell
)

// note counts the time since the last look where both looks found the same kind of thing.
func (g *gate) note(now time.Duration, found finding) {
	since := now - g.lookedAt
	if g.found >= well && found >= well {
		g.answering += since
	}
	switch {
	case found == well:
		g.complaining = 0
	case found == unwell && g.found == unwell:
		g.complaining += since
	}
	g.lookedAt, g.found = now, found
}

// stretch is how long something has been so without interruption.
type stretch struct {
	since time.Duration
	lasts bool
}

// look notes whether it is so now, and returns for how long it has been.
func (s *stretch) look(now time.Duration, is bool) time.Duration {
	switch {
	case !is:
		*s = stretch{}
	case !s.lasts:
		*s = stretch{since: now, lasts: true}
	}
	return s.lasted(now)
}

func (s *stretch) lasted(now time.Duration) time.Duration {
	if !s.lasts {
		return 0
	}
	return now - s.since
}

// limits are those of the job.
func (x *execution) limits() step.Limits {
	l := x.cfg.Limits
	l.Soak = x.job.Soak
	if x.job.IsolationTimeout > 0 {
		l.Isolation = x.job.IsolationTimeout
	}
	return l
}

// askHealth looks at the health of the host where the health gate is the current step. While the host looks healthy, the
// API server and the executables are asked at the beginning and at the end of the soak only.
func (x *execution) askHealth(ctx context.Context, f *step.Facts) {
	s := x.job.CurrentStep()
	if s == nil || s.Kind != plan.Health || s.State != step.Running || f.Interrupted {
		return
	}
	var baseline health.Baseline
	if x.job.Baseline != nil {
		baseline = *x.job.Baseline
	}
	g, soak := &x.gate, x.limits().Soak
	soaking := g.clean.lasts && g.clean.lasted(x.cfg.Elapsed()) < soak
	look := x.cfg.Health.Check
	if soaking {
		look = x.cfg.Health.Look
	} else {
		x.askBoot(ctx)
	}
	f.BootTook = g.bootTook
	worse, err := look(ctx, baseline, x.targets())
	now := x.cfg.Elapsed()
	alone := errors.Is(err, health.ErrUnanswered)
	if err != nil && !alone {
		f.HealthMessage = err.Error()
		g.note(now, nothingFound)
		g.clean.look(now, false)
		if !errors.Is(err, health.ErrUnreadable) { // an error of the API server is an answer
			g.isolated, g.without = stretch{}, stretch{}
		}
		return
	}
	f.HealthKnown = !alone
	for _, c := range worse {
		complaint := step.Complaint{Device: x.deviceOf(c.UniqueID), Message: c.Message}
		if c.Network {
			complaint.Evidence = step.Network
		}
		f.Unhealthy = append(f.Unhealthy, complaint)
	}
	switch {
	case alone:
		g.note(now, unanswered)
	case len(worse) > 0:
		g.note(now, unwell)
	default:
		g.note(now, well)
	}
	f.Clean = g.clean.look(now, len(worse) == 0 && !alone)
	if soaking { // only a look that asks everything ends the soak
		f.Clean = min(f.Clean, soak-1)
	}
	f.Complaining, f.Waited = g.complaining, min(f.Waited, g.answering)
	x.isolate(f, alone, baseline.Reached, err)
}

// isolate notes for how long the host has been cut off by what the job changed. A complaint that ends for less than the soak
// has not ended: a link that comes and goes does not let the host reach anything.
func (x *execution) isolate(f *step.Facts, alone, reached bool, err error) {
	g, now, l := &x.gate, x.cfg.Elapsed(), x.limits()
	if !alone {
		g.isolated, g.without = stretch{}, stretch{}
		return
	}
	blamed := false
	for _, c := range f.Unhealthy {
		blamed = blamed || c.Device != "" && x.job.Record.Touched(c.Device)
	}
	began := !g.isolated.lasts
	flaps := g.isolated.lasts && g.without.look(now, !blamed) < l.Soak
	lasted := g.isolated.look(now, blamed || flaps)
	f.Isolation = &step.Isolation{Message: err.Error(), Reached: reached, Lasted: lasted}
	if !g.isolated.lasts {
		return
	}
	if began {
		g.until = x.cfg.Now().Add(l.Isolation)
		x.cfg.Log.Warn("Node is cut off, and its update may be the cause", "job", x.job.Name, "complaints", len(f.Unhealthy),
			"until", g.until, "err", err)
	}
	f.Isolation.Until = g.until
}

// askBoot asks how long the boot took. While that is not known nothing is blamed for it.
func (x *execution) askBoot(ctx context.Context) {
	if x.cfg.BootTook == nil || x.job.Record.Reboots() == 0 {
		return
	}
	took, err := x.cfg.BootTook(ctx)
	if err != nil {
		x.cfg.Log.Debug("How long the boot took is not known", "job", x.job.Name, "err", err)
		return
	}
	x.gate.bootTook = took
}
