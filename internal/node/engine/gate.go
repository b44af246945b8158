package engine

import (
	"context"
	"errors"
	"slices"
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
	// nothing worse. An answer counts until the next question. The time after a question that got no answer, or an error, counts
	// in neither, and ends neither: a connection that comes and goes must not keep the gate from its verdict.
	answering, complaining time.Duration
	// clean is how long every look has found nothing worse, from one that the API server answered.
	clean stretch
	// isolated is how long the API server has not answered while a device that the job changed had a complaint, without is how
	// long there has been no such complaint; until is when the host gives up.
	isolated, without stretch
	until             time.Time
	// boot is how long the boot took, once that is known.
	boot step.BootTime
	// question is the last question to the API server and the executables.
	question question
}

// finding is what a look of the gate found.
type finding int

const (
	// nothingFound: there was no look, or the host or the API server could not be read.
	nothingFound finding = iota
	// unanswered: the API server did not say how the Node is.
	unanswered
	// well and unwell: the API server answered, and nothing or something was worse.
	well
	unwell
)

// note counts the time since the last look as what that one found.
func (g *gate) note(now time.Duration, found finding) {
	since := now - g.lookedAt
	if g.found >= well {
		g.answering += since
	}
	if g.found == unwell {
		g.complaining += since
	}
	if found == well {
		g.complaining = 0
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
	return l
}

// askHealth looks at the health of the host where the health gate is the current step. The host is looked at each time. The API
// server and the executables are asked rarely: see question. A verdict always rests on a look that asked them, so they are asked at
// once where what the host found would decide.
func (x *execution) askHealth(ctx context.Context, f *step.Facts) {
	s := x.job.CurrentStep()
	if s == nil || s.Kind != plan.Health || s.State != step.Running || f.Interrupted {
		return
	}
	g := &x.gate
	if !g.clean.lasts {
		x.askBoot(ctx)
	}
	f.Boot, f.BootBefore, f.OtherKernel = g.boot, x.baseline().Boot, x.otherKernel()
	if g.clean.lasts || g.question.rests(x.cfg.Elapsed()) {
		seen := *f
		x.lookAtHost(ctx, &seen)
		if step.Next(x.job.Record, seen, x.limits()).Verb == step.Await {
			*f = seen
			return
		}
	}
	x.lookAtAll(ctx, f)
}

// lookAtHost looks at what the host knows itself, and takes the last answer of the API server for what it says now.
func (x *execution) lookAtHost(ctx context.Context, f *step.Facts) {
	g, baseline := &x.gate, x.baseline()
	look := x.cfg.Health.Look
	if g.question.found == unanswered {
		look = x.cfg.Health.LookAlone
	}
	found, err := look(ctx, baseline, x.targets())
	now := x.cfg.Elapsed()
	if err != nil {
		x.noteUnknown(now, f, err)
		return
	}
	worse := x.complaints(found)
	g.question.saw(now, x.cfg.Poll, len(worse) > 0)
	switch q := g.question; q.found {
	case nothingFound:
		x.noteUnknown(now, f, q.err)
	case unanswered:
		f.Unhealthy = worse
		x.noteAlone(now, f, baseline, q.err)
	default: // what the API server and the executables said stands until they are asked again
		worse = union(q.worse, worse)
		x.noteKnown(now, f, worse)
		f.Clean = g.clean.look(now, g.clean.lasts && len(worse) == 0)
	}
}

// lookAtAll looks at the host and asks the API server and the executables.
func (x *execution) lookAtAll(ctx context.Context, f *step.Facts) {
	g, baseline := &x.gate, x.baseline()
	found, err := x.cfg.Health.Check(ctx, baseline, x.targets())
	now := x.cfg.Elapsed()
	if errors.Is(err, health.ErrUnreadable) || err != nil && ctx.Err() != nil { // nobody was asked, or nobody waited for the answer
		x.noteUnknown(now, f, err)
		return
	}
	worse := x.complaints(found)
	answer := well
	switch {
	case errors.Is(err, health.ErrUnanswered):
		answer = unanswered
	case err != nil:
		answer = nothingFound
	case len(worse) > 0:
		answer = unwell
	}
	g.question.answered(now, x.cfg.Poll, answer, worse, err)
	switch answer {
	case nothingFound: // the API server answered, and something else failed
		x.noteUnknown(now, f, err)
		x.reached()
	case unanswered:
		f.Unhealthy = worse
		x.noteAlone(now, f, baseline, err)
	default:
		x.noteKnown(now, f, worse)
		f.Clean = g.clean.look(now, answer == well)
		x.reached()
	}
}

// noteUnknown notes that the health of the host is not known.
func (x *execution) noteUnknown(now time.Duration, f *step.Facts, err error) {
	f.HealthMessage = err.Error()
	x.gate.note(now, nothingFound)
	x.gate.clean.look(now, false)
}

// noteAlone notes that nobody but the host itself says how it is.
func (x *execution) noteAlone(now time.Duration, f *step.Facts, b health.Baseline, err error) {
	g := &x.gate
	g.note(now, unanswered)
	g.clean.look(now, false)
	f.Complaining, f.Waited = g.complaining, min(f.Waited, g.answering)
	x.isolate(f, b.Reached, err)
}

// noteKnown notes what is worse on a host whose API server answers.
func (x *execution) noteKnown(now time.Duration, f *step.Facts, worse []step.Complaint) {
	g, found := &x.gate, well
	if len(worse) > 0 {
		found = unwell
	}
	g.note(now, found)
	f.HealthKnown, f.Unhealthy = true, worse
	f.Complaining, f.Waited = g.complaining, min(f.Waited, g.answering)
}

func (x *execution) baseline() health.Baseline {
	if x.job.Baseline == nil {
		return health.Baseline{}
	}
	return *x.job.Baseline
}

func (x *execution) complaints(found []health.Complaint) []step.Complaint {
	var out []step.Complaint
	before := x.baseline().Before
	for _, c := range found {
		out = append(out, step.Complaint{
			Device: x.deviceOf(c.UniqueID), Message: c.Message, Subject: c.Subject, Class: c.Class, Before: slices.Contains(before, c.Subject),
		})
	}
	return out
}

// union is the first list and what only the second one has.
func union(a, b []step.Complaint) []step.Complaint {
	out := slices.Clone(a)
	for _, c := range b {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// askBoot asks how long the boot took that the job asked for. What a person may have had a part in is not known, and neither is what the
// firmware measured by a clock that ran before: no firmware has worked for longer than the reboot took.
func (x *execution) askBoot(ctx context.Context) {
	if x.job.Record.Reboots() == 0 {
		return
	}
	took := x.bootTime(ctx)
	if x.baseline().Attended {
		took.System = 0
	}
	if took.Firmware > x.rebootTook() {
		took.Firmware, took.By = 0, ""
	}
	x.gate.boot = took
}

// rebootTook is how long the host needed from the last request for a reboot to the start of the kernel that runs, or until now where that
// is not known.
func (x *execution) rebootTook() time.Duration {
	var asked time.Time
	for _, s := range x.job.Record.Steps {
		if s.Kind == plan.Reboot && s.Started != nil && s.Started.After(asked) {
			asked = *s.Started
		}
	}
	took := x.cfg.Now().Sub(asked)
	if x.cfg.SinceBoot == nil {
		return took
	}
	since, err := x.cfg.SinceBoot()
	if err != nil {
		x.logger().Debug("How long the kernel has run is not known", "job", x.job.Name, "err", err)
	}
	return took - since
}

// bootTime is how long the running boot took, as far as that is known. Nothing is blamed for what is not.
func (x *execution) bootTime(ctx context.Context) step.BootTime {
	if x.cfg.BootTime == nil {
		return step.BootTime{}
	}
	took, err := x.cfg.BootTime(ctx)
	if err != nil {
		x.logger().Debug("How long the boot took is not known", "job", x.job.Name, "err", err)
	}
	return took
}

// otherKernel names the kernel that runs and that before the job, where both are known and differ.
func (x *execution) otherKernel() string {
	was := x.baseline().Kernel
	if now := x.kernel(); was != "" && now != "" && now != was {
		return now + ", before " + was
	}
	return ""
}

// kexec reports whether another kernel started the one that runs, as far as it says so.
func (x *execution) kexec() bool {
	if x.cfg.Kexec == nil {
		return false
	}
	is, err := x.cfg.Kexec()
	if err != nil {
		x.logger().Debug("What started the kernel is not known", "job", x.job.Name, "err", err)
	}
	return is
}

// kernel is the release of the kernel that runs; empty where it is not known.
func (x *execution) kernel() string {
	if x.cfg.Kernel == nil {
		return ""
	}
	release, err := x.cfg.Kernel()
	if err != nil {
		x.logger().Debug("The release of the kernel is not known", "job", x.job.Name, "err", err)
	}
	return release
}
