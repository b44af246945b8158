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
			x.reached()
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
	if !alone {
		x.reached()
		return
	}
	x.isolate(f, baseline.Reached, err)
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
