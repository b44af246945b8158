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
	// answering is how long the API server has answered, clean and complaining how long the looks agree.
	answering, clean, complaining stretch
	// isolated is how long the API server has not answered while a device that the job changed had a complaint; until is
	// when the host gives up.
	isolated stretch
	until    time.Time
	// bootTook is how long the boot took, once that is known.
	bootTook time.Duration
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
	look := x.cfg.Health.Check
	if g.answering.lasts && g.clean.lasts && g.clean.lasted(x.cfg.Elapsed()) < soak {
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
		g.clean.look(now, false)
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
	f.Clean = g.clean.look(now, len(worse) == 0)
	f.Complaining = g.complaining.look(now, len(worse) > 0 && !alone)
	f.Waited = min(f.Waited, g.answering.look(now, !alone))
	x.isolate(f, alone, baseline.Reached, err)
}

// isolate notes for how long the host has been cut off by what the job changed. A complaint that ends for less than the soak
// has not ended: a link that comes and goes does not let the host reach anything.
func (x *execution) isolate(f *step.Facts, alone, reached bool, err error) {
	g, now, l := &x.gate, x.cfg.Elapsed(), x.limits()
	blamed := false
	for _, c := range f.Unhealthy {
		blamed = blamed || c.Device != "" && x.job.Record.Touched(c.Device)
	}
	flaps := g.isolated.lasts && (len(f.Unhealthy) > 0 || f.Clean < l.Soak)
	began := !g.isolated.lasts
	lasted := g.isolated.look(now, alone && (blamed || flaps))
	if !alone {
		return
	}
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
