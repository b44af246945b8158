package step_test

import (
	"cmp"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// judgeWrite is called before anything that changes a device or the host.
func (w *world) judgeWrite(r step.Record, s step.Step) {
	// Once something was written, a maintenance that is taken away while the API server is away cannot be noticed.
	if w.maint != step.MaintenanceReady && (!w.apiAway || !w.wrote) {
		w.violate("I1", "%s without a maintenance", name(s))
	}
	w.wrote = true
	for _, d := range w.devices {
		if d.original == "" && (s.Device == d.name || s.Kind == plan.Reboot && r.Touched(d.name)) {
			d.original = d.running
		}
	}
	if s.State != step.Running || s.Attempt == 0 {
		w.violate("I1", "%s without a journalled intent", name(s))
	}
	for _, d := range w.devices {
		if w.now < d.until && (s.Device == d.name || s.Kind == plan.Reboot) {
			w.violate("I2", "%s while a write to %s runs", name(s), d.name)
		}
	}
	switch s.Kind {
	case plan.Flash:
		w.judgeFlash(r, s)
	case plan.Restore:
		w.judgeRestore(r, s)
	case plan.Reboot:
		if w.requests >= step.MaxReboots {
			w.violate("R002-25", "reboot %d of the job", w.requests+1)
		}
	}
	if r.NeedsIntervention() {
		w.violate("R002-27", "%s after a person was asked for", name(s))
	}
}

func (w *world) judgeFlash(r step.Record, s step.Step) {
	d := w.device(s.Device)
	for _, other := range r.Steps {
		if other.Kind == plan.Archive && other.Device == s.Device && other.State != step.Succeeded && other.State != step.Skipped {
			w.violate("I1", "%s before what runs was archived", name(s))
		}
	}
	if d.tells && d.stored == target && !d.gone && !d.dead() {
		w.violate("I8", "%s although the image is stored", name(s))
	}
	if r.Failure != nil {
		w.violate("I5", "%s of an image that failed: %s", name(s), r.Failure.Message)
	}
}

func (w *world) judgeRestore(r step.Record, s step.Step) {
	d, from := w.device(s.Device), r.Target(s.Device, true)
	switch {
	case d.back == inventory.RollbackNone:
		w.violate("R002-2", "%s though the driver declares no way back", name(s))
	case from != d.original || d.archived != d.original:
		w.violate("I5", "%s of %q though %q is archived and %q ran before", name(s), from, d.archived, d.original)
	case !slices.Contains(r.Failure.Blames, s.Device):
		w.violate("I9", "%s of a device that is not at fault", name(s))
	}
}

func (w *world) judgeRelease(r step.Record) {
	if r.Failure != nil && r.Failure.Held && !r.Released {
		w.violate("I9", "released a node that is held: %s", r.Failure.Message)
	}
}

// judgeDecision is called after each decision.
func (w *world) judgeDecision(was, is step.Record, a step.Action, f step.Facts) {
	if a.Verb == step.Begin && is.Steps[a.Step].Kind == plan.Release && f.Maintenance <= step.MaintenanceReady && f.Maintenance != step.MaintenanceNone && !is.Released {
		if v := is.Verdict; v != nil && v.Healthy && v.BootID != f.BootID {
			w.violate("R002-31", "returned a node that was judged under %s and runs under %s", v.BootID, f.BootID)
		}
	}
	for i := range was.Steps {
		b, n := was.Steps[i], is.Steps[i]
		if n.Attempt < b.Attempt {
			w.violate("I5", "the attempts of %s went from %d to %d", name(b), b.Attempt, n.Attempt)
		}
		if b.State != step.Pending && b.State != step.Running && n.State != b.State && a.Verb != step.Restart && a.Verb != step.RepeatGate && a.Verb != step.RebootAgain {
			w.violate("I5", "%s was %s and is %s", name(b), b.State, n.State)
		}
		limit := int32(step.MaxAttempts)
		if n.Kind == plan.Reboot {
			limit = step.MaxReboots
		}
		if n.Writes() && n.Attempt > limit {
			w.violate("I5", "%s was begun %d times", name(n), n.Attempt)
		}
	}
	if was.Verdict != is.Verdict {
		w.judgeVerdict(was, is, a, f)
	}
	for _, u := range is.Updates {
		if d := w.device(u.Device); u.Rollback != inventory.RollbackNone && d.original != "" && u.From != d.original {
			w.violate("I5", "%s ran %q before and would be restored to %q", u.Device, d.original, u.From)
		}
	}
}

func (w *world) judgeVerdict(was, is step.Record, a step.Action, f step.Facts) {
	switch v := is.Verdict; {
	case a.Verb != step.Settle || was.Steps[a.Step].Kind != plan.Health:
		w.violate("R002-19", "a verdict by something else than the gate")
	case v.BootID != f.BootID:
		w.violate("R002-31", "a verdict about %s under %s", v.BootID, f.BootID)
	case !v.Healthy && len(v.Complaints) == 0:
		w.violate("R002-19", "an unhealthy verdict without a complaint")
	case v.Healthy && (!f.HealthKnown || len(f.Unhealthy) > 0):
		w.violate("I7", "a healthy verdict though %v", f.Unhealthy)
	}
}

// judgeOrder is called when the job has finished by itself: each step began after those of a higher priority, and the host was rebooted no
// more than once, apart from a rollback and another driver, and for a device that needs it.
func (w *world) judgeOrder(r step.Record) {
	for _, phase := range w.begun {
		if !slices.IsSortedFunc(phase, func(a, b int32) int { return cmp.Compare(b, a) }) {
			w.violate("R001-6", "steps ran out of order: %v", phase)
		}
	}
	needed := slices.ContainsFunc(w.devices, func(d *device) bool { return d.needsBoot })
	if w.reboots > 1 && r.Rollback == nil && r.Restarts == 0 && !r.SecondBoot || w.reboots > 0 && !needed {
		w.violate("R001-6", "%d reboots, and needed: %t", w.reboots, needed)
	}
}

// judgeEnd is called when the job has finished.
func (w *world) judgeEnd(r step.Record) {
	if len(w.violations) > 0 {
		return
	}
	if w.maintenances > 1 && !w.stolen {
		w.violate("I8", "%d maintenances for one job", w.maintenances)
	}
	for _, d := range w.devices {
		if d.writes > step.MaxAttempts || d.restores > step.MaxAttempts {
			w.violate("I5", "%s was written %d times and restored %d times", d.name, d.writes, d.restores)
		}
		if d.tells && d.taken > step.MaxAttempts {
			w.violate("I8", "%s took the image %d times", d.name, d.taken)
		}
	}
	switch r.Outcome {
	case step.Complete:
		w.judgeComplete(r)
	case step.Failed:
		w.judgeFailed(r)
	default:
		w.violate("End", "the job ended without an outcome")
	}
}

func (w *world) judgeComplete(r step.Record) {
	if r.Failure != nil {
		w.violate("I4", "complete with a failure: %s", r.Failure.Message)
	}
	touched := false
	for _, d := range w.devices {
		touched = touched || r.Touched(d.name)
		if r.Touched(d.name) && d.kind == inventory.ActivateReboot && d.flashedUnder == w.boot && d.writes > 0 {
			w.violate("I4", "success of %s without a new boot", d.name)
		}
		if d.running != target && !d.refuses {
			w.violate("I4", "success though %s runs %s", d.name, d.running)
		}
	}
	w.judgeBoots(r)
	if touched && (r.Verdict == nil || !r.Verdict.Healthy) {
		w.violate("I4", "success without a verdict of the gate")
	}
	if w.maint != step.MaintenanceNone {
		w.violate("I9", "the node was left in maintenance")
	}
}

func (w *world) judgeFailed(r step.Record) {
	f := r.Failure
	if f == nil || f.Message == "" {
		w.violate("I7", "failed without a word")
		return
	}
	if r.RolledBack() {
		for _, name := range r.Rollback.Devices {
			if d := w.device(name); d.running != d.original && !d.gone {
				w.violate("I4", "rolled back though %s runs %s", name, d.running)
			}
		}
		if !r.Verdict.Healthy || f.Held {
			w.violate("I4", "rolled back without a healthy verdict, or held")
		}
	}
	if len(f.Blames) > 0 && !r.RolledBack() && !r.Released && (!r.NeedsIntervention() || !f.Held) {
		w.violate("I7", "new firmware is at fault and nobody is asked for")
	}
	held := f.Held && !r.Released
	switch {
	case !held && w.maint != step.MaintenanceNone:
		w.violate("I9", "left in maintenance without being held: %s", f.Message)
	case held && !w.stolen && w.maint != step.MaintenanceReady:
		w.violate("I9", "held without a maintenance: %s", f.Message)
	case !held && !r.Released && !r.RolledBack() && w.left() != "":
		w.violate("I7", "returned to service with %s", w.left())
	}
}

// left names a device the job left with neither the old nor the new firmware.
func (w *world) left() string {
	for _, d := range w.devices {
		if d.torn {
			return d.name + " torn"
		}
	}
	return ""
}
