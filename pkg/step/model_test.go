package step_test

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The versions of the model.
const (
	before  inventory.Version = "1"
	target  inventory.Version = "2"
	garbage inventory.Version = "torn"
)

// world is a host that records what it needs to detect violations. The seed determines when it crashes, reboots and reports
// wrong values.
type world struct {
	random *rand.Rand
	next   decider
	quiet  bool
	// person changes what a person asks for in the facts of a round, and watch judges what is decided then; nil for nobody.
	person func(*step.Facts)
	watch  func(step.Record, step.Facts, step.Action)

	now, since, died, stepped time.Duration
	boot                      int
	bootedAt                  time.Duration
	boots                     *boots // nil where each takes as long as ever
	devices                   []*device
	maint                     step.Maintenance
	apiAway, stolen           bool
	notInstalled              bool
	driver                    int
	interrupted               bool
	crashiness                int

	ignoresReboot, rebootRequested bool
	healthyAfter                   time.Duration
	unwell                         bool
	cancel                         *string
	deadline                       time.Duration

	wrote                         bool
	reboots, requests, operations int
	maintenances                  int

	// begun are the priorities of the steps in the order in which they began first: those of the update, and those of the rollback.
	begun      map[bool][]int32
	violations []violation
	trace      []string
}

// device is one piece of hardware, and what was done to it.
type device struct {
	name                    string
	running, stored         inventory.Version
	kind                    inventory.Activation
	tells                   bool // says what it stores
	lies, fails, refuses    bool
	needsMore               bool // asks for a reboot instead of its reset
	bad                     bool // takes the link down while the target runs
	mute                    bool // does not answer while the target runs
	late                    bool // its next boot leaves it as it is
	back                    inventory.Rollback
	archived                inventory.Version
	original                inventory.Version // what ran when it was archived, or before the job first changed it
	gone                    bool
	wasOff                  bool // did not run its target when the job began
	writing                 inventory.Version
	until                   time.Duration // a write that no process follows ends then
	tears                   bool          // and leaves garbage
	torn                    bool
	writes, restores, taken int
	flashedUnder            int
	needsBoot               bool // its target runs after a reboot only
}

func newWorld(seed uint64) (*world, step.Record) {
	w := &world{random: rand.New(rand.NewPCG(seed, 0x6669726d)), maint: step.MaintenanceNone, driver: 1, begun: map[bool][]int32{}}
	if seed%4 == 3 {
		w.boots = &boots{random: rand.New(rand.NewPCG(seed, 0x626f6f74))}
		w.boots.image = w.boots.random.IntN(2) == 0
	}
	w.crashiness = []int{15, 40, 400}[w.random.IntN(3)]
	var targets []plan.Target
	var updates []step.Update
	for i := range 1 + w.random.IntN(4) {
		d := w.newDevice("dev" + strconv.Itoa(i))
		w.devices = append(w.devices, d)
		updates = append(updates, step.Update{Device: d.name, Version: target})
		class := []inventory.Class{inventory.BIOS, inventory.NIC, inventory.Disk}[w.random.IntN(3)]
		targets = append(targets, plan.Target{Device: d.name, Class: class})
	}
	w.ignoresReboot, w.notInstalled = w.chance(10), w.chance(25)
	w.healthyAfter = w.between(0, 30*time.Minute) * time.Duration(w.random.IntN(2))
	w.deadline = 1000 * time.Hour
	if w.chance(8) || w.notInstalled {
		w.deadline = w.between(time.Second, 30*time.Minute)
	}
	r := step.New(plan.DefaultCatalog().Steps(targets), updates...)
	r.RollbackRequired = w.chance(8)
	if w.chance(12) {
		r.Inherited, w.maint, w.notInstalled = true, step.MaintenanceReady, false
	}
	return w, r
}

func (w *world) newDevice(name string) *device {
	d := &device{
		name: name, running: before, stored: before, wasOff: true,
		kind: inventory.Activation(w.random.IntN(5)), tells: w.chance(2), back: inventory.Rollback(w.random.IntN(4)),
	}
	switch w.random.IntN(15) {
	case 0:
		d.lies = true
	case 1:
		d.fails = true
	case 2:
		d.refuses = true
	case 3:
		d.needsMore = true
	case 4:
		d.stored = target
	case 5:
		d.running, d.stored, d.wasOff = target, target, false
	case 6:
		d.gone = true
	case 7, 8, 9:
		d.bad = true
	case 10:
		d.mute = true
	case 11:
		d.late = true
	}
	d.needsBoot = d.wasOff && (d.kind == inventory.ActivateReboot || d.needsMore)
	return d
}

func (w *world) chance(oneIn int) bool { return w.random.IntN(oneIn) == 0 }

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

func (w *world) device(name string) *device {
	for _, d := range w.devices {
		if d.name == name {
			return d
		}
	}
	return nil
}

// facts is what this pass reads.
func (w *world) facts(r step.Record) step.Facts {
	f := step.Facts{
		BootID: w.bootID(), Devices: map[string]step.Device{}, Maintenance: w.maint, Interrupted: w.interrupted,
		Cancel: w.cancel, Drivers: map[string]string{"sim": strconv.Itoa(w.driver)},
		Expired: w.now > w.deadline,
	}
	switch {
	case w.apiAway:
		f.Maintenance = step.MaintenanceUnknown
	case w.notInstalled:
		f.Maintenance = step.MaintenanceNotInstalled
	}
	if w.boots != nil {
		f.Boot, f.BootBefore = w.boots.time(), usual
	}
	f.HealthKnown = !w.apiAway
	f.Unhealthy = w.complaints()
	for _, name := range step.Wanted(r) {
		d := w.device(name)
		f.Devices[name] = d.look(w.now)
		if f.Devices[name].WriteRunning {
			w.since = w.now
		}
	}
	f.Waited = w.now - w.since
	return f
}

func (w *world) complaints() []step.Complaint {
	var out []step.Complaint
	if w.now-w.bootedAt < w.healthyAfter || w.unwell {
		out = append(out, step.Complaint{Message: "a link is down"})
	}
	for _, d := range w.devices {
		if d.bad && d.running == target || d.dead() {
			out = append(out, step.Complaint{Device: d.name, Message: "link down"})
		}
	}
	return out
}

// dead devices do not answer.
func (d *device) dead() bool { return d.mute && d.running == target || d.running == garbage }

func (d *device) look(now time.Duration) step.Device {
	switch {
	case now < d.until:
		return step.Device{WriteRunning: true}
	case d.gone:
		return step.Device{Missing: true}
	case d.dead():
		return step.Device{Unreadable: "no answer"}
	}
	sd := step.Device{Running: d.running, Activation: d.kind}
	if d.tells {
		sd.Stored = d.stored
	}
	return sd
}
