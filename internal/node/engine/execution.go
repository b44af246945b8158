package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// execution is one job while this process executes it.
type execution struct {
	*Engine
	job journal.Job
	// interrupted says that this process does not follow the attempt of the current step.
	interrupted bool
	// at is the current step; since is from when on it waits.
	at    int
	since time.Duration
	// gate is what the looks of the current health gate have found so far.
	gate gate
	// notes says what of the wait of a node that is cut off is in the journal.
	notes notes
	// refused says that the host has refused a guard since the last reboot was asked for.
	refused bool
	// arrays are those whose drives the job changes, with the device, as the running preflight found them.
	arrays map[string]string
	// copies are the largest copies of images that tools of this job get on disk, in bytes, by directory, as far as this process has seen
	// the images.
	copies map[string]int64
	// reboots says that a device of the job takes its firmware at a reboot, as the running preflight found it.
	reboots bool
	// measured are the PCRs that the job's firmware is measured into, as the running preflight found it.
	measured []int
	// attended says that the host may wait for a person at its next boot, as the running preflight found it.
	attended bool
	// silent is for a job that never runs: it is journalled and not published.
	silent bool
	// moved is when the running step last made progress, and overdue the message when that is too long ago.
	moved   time.Duration
	overdue string
	// drives are those that erase themselves, by the index of the step, and turn counts the looks at others than that of the current step.
	drives map[int]drive
	turn   int
	// waiting, maintenance and percent are only reported.
	waiting     string
	maintenance maintenance.State
	percent     *int32
	// replaced is a driver that checked an image for a device which another driver reads now; empty again from the next check.
	replaced string
	// prepared is what the running preflight found out about settings, by device.
	prepared map[string]prepared
	// drift is what the accepted update changed of the settings that nobody declares, with what it was, by unique id.
	drift map[string][]journal.Setting
	// writing is the lock of the step that writes, empty until it does and once its write is known; before is when the write before it
	// began.
	writing string
	before  time.Time
}

// pass does one round: gather, decide, journal, act. It returns how long to wait before the next one. An error is
// logged and waited out: the journal and the hardware say where to go on.
func (x *execution) pass(ctx context.Context) time.Duration {
	facts, err := x.gather(ctx)
	switch {
	case ctx.Err() != nil:
		return 0 // a read that failed because this process is to end says nothing about the host
	case err != nil:
		return x.logAndRetry(err)
	}
	action := step.Next(x.job.Record, facts, x.limits())
	if x.accepts(action) {
		if x.lookForDrift(ctx); ctx.Err() != nil {
			return 0
		}
	}
	if err := x.record(action, facts); err != nil {
		return x.logAndRetry(err)
	}
	switch action.Verb {
	case step.Await:
		x.wait(action.Message)
		if action.Step >= 0 && x.glance(ctx, action.Step) {
			return 0
		}
		return x.cfg.Poll
	case step.Begin:
		x.interrupted, x.since = false, x.cfg.Elapsed()
		return x.act(ctx, action.Step)
	case step.Poll:
		if wait := x.act(ctx, action.Step); wait > 0 {
			return wait // it has published what it waits for
		}
		x.wait(action.Message)
		return x.cfg.Poll
	}
	return 0
}

// logAndRetry logs an error of the host that may be temporary, such as an unreadable boot id or a full disk. It returns how
// long to wait before the next round.
func (x *execution) logAndRetry(err error) time.Duration {
	x.logger().Error("Job is waiting for the host", "job", x.job.Name, "err", err)
	x.wait(err.Error())
	return x.cfg.Poll
}

func (x *execution) gather(ctx context.Context) (step.Facts, error) {
	bootID, err := x.cfg.BootID()
	if err == nil && bootID == "" {
		err = fmt.Errorf("the kernel reports an empty one")
	}
	if err != nil {
		return step.Facts{}, fmt.Errorf("read boot id: %w", err)
	}
	now := x.cfg.Elapsed()
	if cur := x.job.Record.Current(); cur != x.at {
		x.changed(cur)
		x.at, x.since, x.moved, x.overdue, x.gate = cur, now, now, "", gate{}
		if d, ok := x.drives[cur]; ok {
			x.moved = d.moved
		}
	}
	x.watch(now)
	grace := x.takeCancel()
	f := step.Facts{
		BootID: bootID, Devices: map[string]step.Device{}, Interrupted: x.interrupted,
		Cancel: x.job.Cancel, CancelForce: x.job.CancelForce, CancelGrace: grace, Expired: !x.job.Deadline.IsZero() && x.cfg.Now().After(x.job.Deadline), Drivers: x.drivers(),
		Unasked: x.unasked(),
	}
	for _, name := range step.Wanted(x.job.Record) {
		if f.Devices[name], err = x.look(ctx, name); err != nil {
			return f, err
		}
		if f.Devices[name].WriteRunning {
			x.since = now // the device has its time to answer when the write has ended
		}
	}
	f.Waited = now - x.since
	if s := x.job.CurrentStep(); s != nil && s.Kind == plan.Reboot {
		f.Kexec = x.kexec() && !x.baseline().Kexec
	}
	x.askMaintenance(ctx, &f)
	x.askHealth(ctx, &f)
	return f, nil
}

// drivers are the versions of this process's drivers, by name, without the one that was replaced.
func (x *execution) drivers() map[string]string {
	versions := map[string]string{}
	for _, d := range x.cfg.Drivers.All() {
		versions[d.Name()] = d.Version()
	}
	delete(versions, x.replaced)
	return versions
}

// askTimeout bounds a question to the API server: a network that swallows packets gives no answer at all.
const askTimeout = 30 * time.Second

// watch reports a step that has made no progress for longer than its deadline. It kills nothing.
func (x *execution) watch(now time.Duration) {
	overdue, s := x.late(now)
	if overdue == x.overdue {
		return
	}
	if x.overdue = overdue; s != nil {
		x.logger().Error("Step is overdue", "job", x.job.Name, "step", s.Kind, "device", s.Device, "deadline", s.Deadline)
	}
	x.publish(true)
}

// late says for people that the current step, or one of several whose drives erase themselves, has made no progress for longer than its deadline,
// and returns that step.
func (x *execution) late(now time.Duration) (string, *step.Step) {
	s := x.job.CurrentStep()
	if s == nil || s.State != step.Running || s.Deadline == 0 {
		return "", nil
	}
	all := x.job.Record.Beside(-1)
	if len(all) > 1 && s.Followed() {
		return x.lateDrives(now, all)
	}
	deadline := s.Deadline
	if s.Kind == plan.Health {
		deadline += x.limits().Soak // it makes none meanwhile
	}
	if now-x.moved < deadline && !s.Followed() {
		return x.lateDrives(now, all)
	}
	if now-x.moved < deadline {
		return "", nil
	}
	return fmt.Sprintf("it has made no progress for %s and is not killed; check the node and its devices", deadline), s
}

func (x *execution) look(ctx context.Context, name string) (step.Device, error) {
	u := x.update(name)
	running, err := x.cfg.Writes.WriteRunning(u.UniqueID)
	if err != nil {
		return step.Device{}, fmt.Errorf("look for a write to %s: %w", name, err)
	}
	if running {
		// Some devices must not be read while they are written.
		return step.Device{WriteRunning: true, Writer: x.writer(u.UniqueID)}, nil
	}
	d, found, err := x.cfg.Host.Find(ctx, u.Class, u.UniqueID)
	switch {
	case errors.Is(errors.Join(err, d.Err), command.ErrStillRunning):
		// A plugin goes on with its write when the process that followed it has ended.
		return step.Device{WriteRunning: true, Writer: errors.Join(err, d.Err).Error()}, nil
	case err != nil:
		return step.Device{Unreadable: err.Error()}, nil
	case !found:
		return step.Device{Missing: true}, nil
	case d.Err != nil:
		return step.Device{Unreadable: d.Err.Error()}, nil
	case d.Firmware == nil:
		return step.Device{Unreadable: "no driver read its firmware"}, nil
	}
	fw := d.Firmware
	dev := step.Device{
		Running: fw.Running, Stored: fw.Stored, Activation: fw.Activation, ActivationMessage: fw.ActivationMessage, Refusal: fw.LastAttempt,
		Hold: x.hold(ctx, d),
	}
	for _, slot := range fw.Slots {
		dev.Slots = append(dev.Slots, slot.Version)
	}
	if u.Configures() {
		x.lookAtSettings(ctx, u, d, &dev)
	}
	return dev, nil
}

// Writers describe the process that writes to a device. Config.Writes may implement it.
type Writers interface {
	// Writing is what is known of the last write under the lock.
	Writing(lock string) (*command.Writing, error)
}

// writer describes the process that writes to a device and how far it is; empty where that is not known.
func (x *execution) writer(lock string) string {
	w := x.lastWrite(lock)
	if w == nil || len(w.Argv) == 0 {
		return ""
	}
	x.expose(*w)
	text := fmt.Sprintf("%s, process %d, since %s", w.Argv[0], w.Tool.PID, w.Started.UTC().Format(time.RFC3339))
	if !w.Protected && w.Unprotected != "" {
		text += ", not protected from the end of its container: " + w.Unprotected
	}
	if w.Uninhibited != "" {
		text += ", the host is not kept from shutting down: " + w.Uninhibited
	}
	if w.LastLine != "" {
		text += ", last said: " + w.LastLine
	}
	return text
}

// askMaintenance asks how the maintenance stands where the current step depends on it.
func (x *execution) askMaintenance(ctx context.Context, f *step.Facts) {
	s := x.job.CurrentStep()
	if s == nil || s.Kind != plan.Maintenance && s.Kind != plan.Release && !s.Writes() && !s.OutOfService {
		return
	}
	asking, done := context.WithTimeout(ctx, askTimeout)
	defer done()
	state, err := x.cfg.Maintenance.State(asking)
	if err != nil {
		f.MaintenanceMessage = err.Error()
		return
	}
	f.Maintenance, f.MaintenanceMessage = state.Phase, state.Message
	x.maintenance = state
	switch {
	case s.Kind == plan.Maintenance:
		x.job.Node = state.Node // the next save makes it durable: that is the end of this step at the latest
		if state.Phase == step.MaintenanceReady {
			x.job.Cordon = state.Cordon
		}
	case s.Kind != plan.Release && state.Node != "" && x.job.Node != "" && state.Node != x.job.Node:
		f.Maintenance = step.MaintenanceBroken
		f.MaintenanceMessage = "the node was registered again since it was taken out of service, and workloads may run there"
	}
	if b := x.job.Baseline; b != nil && !b.Reached && !x.job.Record.Wrote() {
		reached := *b
		reached.Reached = true
		x.job.Baseline = &reached // the next save makes it durable: that is the one of the first write at the latest
	}
}

// deviceOf is the name of the job's device with the unique id, empty when the job has none.
func (x *execution) deviceOf(uniqueID string) string {
	for _, u := range x.job.Updates {
		if uniqueID != "" && u.UniqueID == uniqueID {
			return u.Device
		}
	}
	return ""
}

func (x *execution) targets() []health.Target {
	var t []health.Target
	for _, u := range x.job.Updates {
		if x.job.Record.Expected(u.Device) == "" {
			continue
		}
		t = append(t, health.Target{Device: u.Device, UniqueID: u.UniqueID, Version: x.job.Record.Expected(u.Device)})
	}
	return t
}

func (x *execution) update(name string) journal.Update {
	for _, u := range x.job.Updates {
		if u.Device == name {
			return u
		}
	}
	return journal.Update{}
}

// record journals an action. An action that cannot be journalled is not carried out.
func (x *execution) record(a step.Action, f step.Facts) error {
	if a.Verb == step.Await || a.Verb == step.Poll {
		return nil
	}
	now := x.cfg.Now()
	next := x.job
	next.Record = step.Apply(x.job.Record, a, f.BootID, now)
	if a.Verb == step.Settle {
		x.clock(&next, a, now)
	}
	if a.Verb != step.Begin { // a daemon that was restarted begins its gate again, and goes on with the wait
		next.CutOff = nil
	}
	devices, err := x.remember(next, a, f.BootID, now)
	if err != nil {
		return err
	}
	if a.Verb == step.Finish {
		next.Finished, next.Reported = &now, false
	}
	if err := x.save(next, devices...); err != nil {
		return err
	}
	x.log(a)
	return nil
}

// clock records when the maintenance began and ended.
func (x *execution) clock(next *journal.Job, a step.Action, now time.Time) {
	switch s := next.Record.Steps[a.Step]; {
	case s.State != step.Succeeded:
	case s.Kind == plan.Maintenance && next.MaintenanceStarted == nil:
		next.MaintenanceStarted = &now
	case s.Kind == plan.Release && next.MaintenanceStarted != nil:
		next.MaintenanceEnded = &now
	}
}

func (x *execution) save(next journal.Job, devices ...journal.Device) error {
	if err := x.cfg.Journal.Save(next, devices...); err != nil {
		return err
	}
	x.job = next
	x.waiting, x.percent = "", nil
	x.publish(true)
	return nil
}

// logger is the log of the engine, with the trace of the job where it has one.
func (x *execution) logger() *slog.Logger {
	if id := x.job.TraceID(); id != "" {
		return x.cfg.Log.With("traceID", id)
	}
	return x.cfg.Log
}

func (x *execution) log(a step.Action) {
	l := x.logger().With("job", x.job.Name)
	if a.Step >= 0 {
		s := x.job.Record.Steps[a.Step]
		l = l.With("step", s.Kind, "device", s.Device)
	}
	switch {
	case a.Verb == step.Begin:
		l.Info("Step began", "attempt", x.job.Record.Steps[a.Step].Attempt)
	case a.Failure != nil:
		l.Error("Step failed", "reason", a.Failure.Reason, "message", a.Message)
	case a.Verb == step.Settle:
		l.Info("Step ended", "state", a.State, "message", a.Message)
	case a.Verb == step.RollBack:
		l.Warn("Job rolls back", "devices", a.Devices, "message", a.Message)
	case a.Verb == step.RepeatGate:
		l.Warn("Health check of the host is repeated", "message", a.Message)
	case a.Verb == step.RebootAgain:
		l.Warn("Host reboots once more", "message", a.Message)
	case a.Verb == step.ConfigureAgain:
		l.Warn("Settings are stored once more", "message", a.Message)
	case a.Verb == step.Restart:
		l.Warn("Job restarts its steps", "message", a.Message)
	case a.Verb == step.Finish:
		l.Info("Job ended", "outcome", a.Outcome, "message", a.Message)
	}
}

func (x *execution) wait(message string) {
	if message != x.waiting {
		x.waiting = message
		x.publish(true)
	}
}

func (x *execution) publish(transition bool) {
	if x.silent {
		return
	}
	s := Snapshot{Job: x.job, Percent: x.percent, Beside: beside(x.drives), Waiting: x.waiting, Maintenance: x.maintenance, Overdue: x.overdue, Transition: transition}
	x.mu.Lock()
	s.Cancelling = x.awaited(s)
	x.current = &s
	x.mu.Unlock()
	x.cfg.Notify(s)
}

// retire ends the publication of the job: from now on the journal says how far it is.
func (x *execution) retire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.current = nil
	x.forgetCancel()
}
