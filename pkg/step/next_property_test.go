package step_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// world is a host with a memory for what must never happen. It crashes, reboots and lies as the draw says.
type world struct {
	t       *rapid.T
	boot    int
	devices map[string]*device
	maint   step.Maintenance
	apiAway bool
	wrote   bool
	// stolen: somebody takes the maintenance away in the middle.
	stolen bool

	ignoresReboot    bool
	rebootRequested  bool
	reboots          int
	maintenances     int
	healthyAfter     int
	interrupted      bool
	writesUnprepared []string

	// person cancels the job in the facts of a round, and watch judges what is decided; nil for nobody.
	person func(*step.Facts)
	watch  func(step.Record, step.Facts, step.Action)
}

type device struct {
	running, stored, target inventory.Version
	kind                    inventory.Activation
	reports                 bool // it reports what it stores
	lies, fails, refuses    bool
	needsMore               bool // asks for a reboot instead of its reset
	bad                     bool // takes the link down while the target runs
	back                    inventory.Rollback
	restores                int
	writing                 inventory.Version
	writes, takenWrites     int
	flashedUnder            int
	orphan                  int // rounds a write goes on after its process died
	gone                    bool
}

func (d *device) holdsTarget() bool { return d.stored == d.target }

func newWorld(t *rapid.T) (*world, step.Record) {
	w := &world{t: t, devices: map[string]*device{}, maint: step.MaintenanceNone}
	var targets []plan.Target
	var updates []step.Update
	for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
		name := fmt.Sprintf("dev%d", i)
		d := &device{
			running: "1", stored: "1", target: "2",
			kind:    inventory.Activation(rapid.IntRange(0, 4).Draw(t, name+" activation")),
			reports: rapid.Bool().Draw(t, name+" reports"),
		}
		switch rapid.IntRange(0, 12).Draw(t, name+" fault") {
		case 0:
			d.lies = true
		case 1:
			d.fails = true
		case 2:
			d.refuses = true
		case 3:
			d.needsMore = true
		case 4:
			d.stored = "2"
		case 5:
			d.running, d.stored = "2", "2"
		case 6:
			d.gone = true
		case 7, 8:
			d.bad = true
		}
		d.back = inventory.Rollback(rapid.IntRange(0, 3).Draw(t, name+" rollback"))
		w.devices[name] = d
		updates = append(updates, step.Update{Device: name, Version: "2"})
		class := rapid.SampledFrom([]inventory.Class{inventory.BIOS, inventory.NIC, inventory.Disk}).Draw(t, name+" class")
		targets = append(targets, plan.Target{Device: name, Class: class})
	}
	w.ignoresReboot = rapid.IntRange(0, 9).Draw(t, "ignores reboot") == 0
	w.healthyAfter = rapid.IntRange(0, 30).Draw(t, "healthy after")
	return w, step.New(plan.DefaultCatalog().Steps(targets), updates...)
}

func (w *world) chance(label string, oneIn int) bool {
	return rapid.IntRange(0, oneIn-1).Draw(w.t, label) == oneIn-1
}

func (w *world) facts(r step.Record, waited time.Duration) step.Facts {
	f := step.Facts{
		BootID: fmt.Sprint(w.boot), Devices: map[string]step.Device{}, Maintenance: w.maint, Interrupted: w.interrupted,
		Waited: waited, HealthKnown: true,
	}
	if w.apiAway {
		f.Maintenance = step.MaintenanceUnknown
	}
	if time.Duration(w.healthyAfter)*time.Minute > waited {
		f.Unhealthy = []step.Complaint{{Message: "a link is down"}}
	}
	for name, d := range w.devices {
		if d.bad && d.running == d.target {
			f.Unhealthy = append(f.Unhealthy, step.Complaint{Device: name, Message: "link down"})
		}
	}
	for _, name := range step.Wanted(r) {
		d := w.devices[name]
		sd := step.Device{Missing: d.gone, Running: d.running, Activation: d.kind, WriteRunning: d.orphan > 0}
		if d.reports {
			sd.Stored = d.stored
		}
		f.Devices[name] = sd
	}
	return f
}

// tick lets time pass.
func (w *world) tick() {
	for _, d := range w.devices {
		if d.orphan > 0 {
			if d.orphan--; d.orphan == 0 {
				w.take(d)
			}
		}
	}
	if w.maint == step.MaintenanceRequested && w.chance("maintenance becomes ready", 2) {
		w.maint = step.MaintenanceReady
	}
	if w.rebootRequested || w.chance("spontaneous reboot", 60) {
		if w.rebootRequested {
			w.reboots++
		}
		w.rebootRequested = false
		w.rebootNow()
	}
	w.apiAway = w.chance("api away", 5)
	if !w.apiAway && w.maint == step.MaintenanceReady && w.chance("maintenance stolen", 80) {
		w.maint, w.stolen = step.MaintenanceNone, true
	}
}

func (w *world) rebootNow() {
	w.boot++
	w.interrupted = true
	for _, d := range w.devices {
		d.orphan = 0
		if d.kind > inventory.ActivateReboot && !d.needsMore {
			continue
		}
		if d.refuses {
			d.stored, d.takenWrites = d.running, 0 // what it took before is not there any more
		}
		d.running = d.stored
	}
}

func (w *world) take(d *device) {
	if d.lies || d.fails {
		return
	}
	d.takenWrites++
	d.stored = d.writing
	d.flashedUnder = w.boot
	if d.kind == inventory.ActivateNone {
		d.running = d.stored
	}
}

// act does what a begun or polled step does. done is false when the process died before it could note the result.
func (w *world) act(s step.Step) (ret *step.Returned, done bool) {
	if s.Writes() {
		// Once something was written, a maintenance that is stolen while the API server is away cannot be noticed.
		if w.maint != step.MaintenanceReady && (!w.apiAway || !w.wrote) {
			w.writesUnprepared = append(w.writesUnprepared, string(s.Kind))
		}
		w.wrote = true
	}
	failure := func(r step.Reason) *step.Returned {
		return &step.Returned{Failure: &step.Failure{Reason: r, Message: "the tool failed", Step: s.Kind, Device: s.Device}}
	}
	switch s.Kind {
	case plan.Preflight:
		if w.chance("image not yet there", 4) {
			ret = failure(step.ImageUnavailable)
			ret.Again = true
			return ret, true
		}
		return &step.Returned{}, true
	case plan.Maintenance:
		if w.maint == step.MaintenanceNone && !w.apiAway {
			w.maint, w.maintenances = step.MaintenanceRequested, w.maintenances+1
		}
	case plan.Release:
		if !w.apiAway {
			w.maint = step.MaintenanceNone
		}
	case plan.Reboot:
		w.rebootRequested = !w.ignoresReboot
		return &step.Returned{}, true
	case plan.Archive:
		d := w.devices[s.Device]
		if d.gone {
			return failure(step.ArchiveFailed), true
		}
		return &step.Returned{From: d.running, Rollback: d.back}, true
	case plan.Flash, plan.Restore:
		d := w.devices[s.Device]
		require.Zero(w.t, d.orphan, "two writes at once on %s", s.Device)
		if d.writing = d.target; s.Kind == plan.Restore {
			require.NotEqual(w.t, inventory.RollbackNone, d.back, "restored what the driver does not declare")
			d.writing = "1"
			d.restores++
		} else {
			require.False(w.t, d.reports && d.holdsTarget(), "flashed although the image is stored")
			d.writes++
		}
		if w.chance("process dies during the write", 8) {
			d.orphan = rapid.IntRange(1, 3).Draw(w.t, "orphan rounds")
			w.interrupted = true
			return nil, false
		}
		w.take(d)
		if d.fails {
			return failure(step.WriteFailed), true
		}
		return &step.Returned{Needs: d.kind}, true
	case plan.Activate:
		d := w.devices[s.Device]
		if d.needsMore {
			d.kind = inventory.ActivateReboot
			return &step.Returned{Needs: inventory.ActivateReboot}, true
		}
		d.running = d.stored
		return &step.Returned{}, true
	}
	return nil, true
}

func (w *world) crashes(where string) bool {
	if w.chance("crash "+where, 25) {
		w.interrupted = true
		return true
	}
	return false
}

// TestEverySchedulePropertyHolds proves R001-6, R003-48.
func TestEverySchedulePropertyHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, r := newWorld(t)
		needsReboot := map[string]bool{}
		for n, d := range w.devices {
			needsReboot[n] = d.running != d.target && (d.kind == inventory.ActivateReboot || d.needsMore)
		}
		first := run(t, w, &r)

		for _, phase := range first {
			for i := range len(phase) - 1 {
				assert.GreaterOrEqual(t, phase[i], phase[i+1], "steps ran out of order")
			}
		}
		assert.Empty(t, w.writesUnprepared, "wrote without a maintenance")
		assert.LessOrEqual(t, w.reboots, 3)
		if r.Rollback == nil {
			assert.LessOrEqual(t, w.reboots, 1)
		}
		anyReboot := false
		for n, d := range w.devices {
			anyReboot = anyReboot || needsReboot[n]
			assert.LessOrEqual(t, d.writes, 2)
			assert.LessOrEqual(t, d.restores, 2)
			if d.reports {
				assert.LessOrEqual(t, d.takenWrites, 2, "wrote again what had been taken")
			}
		}
		if w.reboots > 0 {
			assert.True(t, anyReboot, "rebooted for nothing")
		}
		for _, s := range r.Steps {
			if s.Writes() {
				assert.LessOrEqual(t, s.Attempt, int32(2))
			}
		}
		if !w.stolen {
			assert.LessOrEqual(t, w.maintenances, 1)
		}
		judgeEnd(t, w, r)
	})
}

func judgeEnd(t *rapid.T, w *world, r step.Record) {
	switch r.Outcome {
	case step.Complete:
		assert.Nil(t, r.Failure)
		for n, d := range w.devices {
			assert.Equal(t, d.target, d.running, "%s", n)
			assert.True(t, r.Verdict == nil || r.Verdict.Healthy)
			if d.writes > 0 && d.kind == inventory.ActivateReboot {
				assert.Greater(t, w.boot, d.flashedUnder, "%s: success without a new boot id", n)
			}
		}
		assert.Equal(t, step.MaintenanceNone, w.maint, "left in maintenance")
	case step.Failed:
		require.NotNil(t, r.Failure)
		if r.RolledBack() {
			for _, name := range r.Rollback.Devices {
				assert.Equal(t, inventory.Version("1"), w.devices[name].running, "%s was not rolled back", name)
			}
			assert.True(t, r.Verdict.Healthy)
			assert.False(t, r.Failure.Held)
		}
		if len(r.Failure.Blames) > 0 && !r.RolledBack() {
			assert.True(t, r.NeedsIntervention())
			assert.True(t, r.Failure.Held)
		}
		if !r.Failure.Held {
			assert.Equal(t, step.MaintenanceNone, w.maint, "left in maintenance without being held: %+v", r.Failure)
		}
		if r.Failure.Held && !w.stolen {
			assert.Equal(t, step.MaintenanceReady, w.maint, "held without maintenance: %+v", r.Failure)
		}
	default:
		t.Fatalf("no outcome: %+v", r)
	}
}

// run executes the job to its end and returns the priorities in the order the steps were begun first: those of the update,
// and those of the rollback.
func run(t *rapid.T, w *world, r *step.Record) (begun [2][]int32) {
	var waited time.Duration
	last := -1
	for range 3000 {
		w.tick()
		if cur := r.Current(); cur != last || w.interrupted {
			last, waited = cur, 0
		} else {
			waited += 2 * time.Minute
		}
		f := w.facts(*r, waited)
		if w.person != nil {
			w.person(&f)
		}
		a := step.Next(*r, f, step.DefaultLimits())
		if w.watch != nil {
			w.watch(*r, f, a)
		}
		if w.crashes("before the journal") {
			continue
		}
		next := step.Apply(*r, a, fmt.Sprint(w.boot), time.Unix(0, 0))
		requireGrows(t, *r, next)
		*r = next
		if a.Verb == step.Finish {
			return begun
		}
		if a.Verb != step.Begin && a.Verb != step.Poll {
			continue
		}
		if a.Verb == step.Begin {
			w.interrupted = false
			if s := r.Steps[a.Step]; s.Attempt == 1 {
				phase := 0
				if s.Rollback {
					phase = 1
				}
				begun[phase] = append(begun[phase], s.Priority)
			}
		}
		if w.crashes("after the journal") {
			continue
		}
		ret, done := w.act(r.Steps[a.Step])
		if !done || w.crashes("before the result is noted") || ret == nil {
			continue
		}
		*r = step.Report(*r, a.Step, *ret)
	}
	t.Fatalf("the job does not end: %+v", *r)
	return begun
}

// requireGrows: attempts only grow, and what is settled stays settled, but for the gate when the host has rebooted since.
func requireGrows(t *rapid.T, before, after step.Record) {
	for i := range before.Steps {
		b, a := before.Steps[i], after.Steps[i]
		require.GreaterOrEqual(t, a.Attempt, b.Attempt)
		if b.State != step.Pending && b.State != step.Running && b.Kind != plan.Health {
			require.Equal(t, b.State, a.State)
		}
	}
}
