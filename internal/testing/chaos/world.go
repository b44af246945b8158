package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// How long things take on the simulated host.
const (
	readTime   = time.Second
	chunkTime  = time.Minute
	orphanTime = 4 * time.Minute
	bootTime   = 3 * time.Minute
	slowBoot   = 45 * time.Minute
	postTime   = time.Minute
	slowPost   = 10 * time.Minute
	shortFault = 5 * time.Minute
	longFault  = 3 * time.Hour
	// patience is how long after the last fault a job may take to end.
	patience = 8 * time.Hour
	poll     = 30 * time.Second
	// never is how long something takes that does not come any more; the jobs of the campaigns give up long before.
	never = 1000 * time.Hour
)

// world is a host whose hardware, state directory and cluster outlive the daemon under test.
type world struct {
	scenario Scenario
	dir      string
	// sabotage changes what the engine is given, so that tests can break it.
	sabotage func(*world, *engine.Config)

	faults []Fault
	points int
	golden []boundary
	record bool

	// calm is from when on a job has its time to end, and undisturbed when the last fault has ended.
	now, stepped, calm, undisturbed time.Duration
	boot                            int
	// bootedAt is when the kernel of this boot started, and bootTime how long the host took to boot.
	bootedAt time.Duration
	bootTime step.BootTime
	life     int
	driver   int
	sim      *drivertest.Simulated

	devices []*device
	window  window
	images  map[inventory.Digest][]byte
	fetched map[inventory.Digest]bool
	damaged int

	apiBack, diskBack, wellAgain time.Duration
	// erring is until when the API server answers errors, and dying says that the bystander is gone from the next boot on.
	erring              time.Duration
	dying               bool
	readOnly, wasCutOff bool
	// weak says since when and until when a set of drives has none to spare.
	weak map[string]span
	// refuses is until when the host refuses to reboot. kexecs counts the next boots that reset nothing, and kexec says that the last one
	// was such.
	refuses  time.Duration
	kexecs   int
	kexec    bool
	rebootAt time.Duration
	slow     bool // the next boot takes very long
	// drags counts the next boots with new firmware at which the firmware of the machine takes long, and loader says that it is the boot
	// loader that says so.
	drags  int
	loader bool
	// imagesBack and checksPass are when images can be fetched, and the executables of required.d pass, again.
	imagesBack, checksPass time.Duration
	// late is how long after the next boot the daemon is started, and clock how far the time of day is off then.
	late, clock time.Duration
	// guarded says that the host starts a guard after a boot, guarding that this life is one, and booted that since the boot the
	// kubelet has not reached the API server.
	guarded, guarding, booted bool
	// windowTakes is how long the next maintenance takes to be ready; zero for the usual time.
	windowTakes time.Duration
	pending     Kind // what the running tool or request does wrong
	pendingArg  int

	files    *durabletest.FS
	filesDir string
	cuts     int
	book     *journal.Journal
	// unsynced is the journal's file before the save that runs, where the power is about to be cut.
	unsynced []byte
	// disk is what the journal on disk says.
	disk journal.View

	engine   *engine.Engine
	stop     context.CancelFunc
	stopping bool
	// current is the job the world waits for. returned says that a person wants its node back.
	current  string
	returned bool
	// idled says that the engine of this life has had nothing to do.
	idled bool
	// quiet is how long the next idle engine is left alone.
	quiet time.Duration

	history []Event
}

// boundary is one boundary of a run without faults.
type boundary struct {
	Op
	number int
	// situation distinguishes boundaries that are at the same operation.
	situation string
}

// death ends a life of the daemon.
type death struct{ fault Fault }

// endless says that a job does not end.
type endless struct{}

// point is a boundary: the faults of the run are injected here.
func (w *world) point(name string, phase Phase, device string) {
	w.points++
	w.reach()
	o := Op{name, phase, device}
	if w.record {
		w.golden = append(w.golden, boundary{o, w.points, w.situation(o)})
	}
	for i := 0; i < len(w.faults); i++ {
		if f := w.faults[i]; f.At <= w.points && f.canStrike(o) {
			w.faults = slices.Delete(w.faults, i, i+1)
			i--
			w.strike(f, o)
		}
	}
}

// situation is the boundary and how far the job is.
func (w *world) situation(o Op) string {
	text := o.String()
	if j := w.disk.Job(w.current); j != nil {
		if i := j.Record.Current(); i >= 0 {
			s := j.Record.Steps[i]
			text += fmt.Sprintf(" %d %s %d %t", i, s.State, s.Attempt, s.Returned != nil)
		}
	}
	return text
}

// note adds an event to the history, with the state at its time.
func (w *world) note(e Event) {
	e.Time, e.Boot, e.Life, e.Calm = w.now, w.bootID(), w.life, w.undisturbed
	e.Took = w.bootTime
	if active := w.disk.Active(); active != nil {
		j := *active
		e.Job = &j
	}
	if e.Kind == EventSaved && w.scenario.Sanitize {
		e.Holding = w.holding()
	}
	e.Record = w.disk.Devices[e.Device]
	if d := w.device(e.Device); d != nil && e.Kind.changes() {
		if e.Spec = d.spec; !w.failed(d) {
			e.Weak = w.weakFor(d.spec.Set)
		}
	}
	for _, d := range w.devices {
		if d.running() {
			e.Busy = append(e.Busy, d.id.UniqueID)
		}
	}
	w.history = append(w.history, e)
}

// advance moves the clock. What comes due meanwhile happens at its time, one after the other.
func (w *world) advance(d time.Duration) {
	until := w.now + d
	for {
		at, happen := w.due(until)
		if happen == nil {
			break
		}
		w.now = max(w.now, at)
		happen()
	}
	if w.now = until; w.now > w.calm+patience {
		panic(endless{})
	}
}

// due is what comes due first, and when; nil when nothing does until then. Of two things that come due at the same time the
// order is always the same.
func (w *world) due(until time.Duration) (at time.Duration, happen func()) {
	earlier := func(t time.Duration, do func()) {
		if t <= until && (happen == nil || t < at) {
			at, happen = t, do
		}
	}
	for _, d := range w.devices {
		if d.op != nil && d.op.orphan {
			earlier(d.op.ends, func() { w.finish(d) })
		}
	}
	for _, d := range w.devices {
		if d.answersAt > 0 {
			earlier(d.answersAt, func() { w.mute(d, 0) })
		}
	}
	if w.rebootAt > 0 {
		earlier(w.rebootAt, func() { panic(death{Fault{Kind: SlowReboot}}) })
	}
	return at, happen
}

// disturbed records how long a fault lasts, and returns its end. What never ends is no excuse for a job that does not end.
func (w *world) disturbed(d time.Duration) time.Duration {
	until := w.now + d
	if d < never {
		w.calm, w.undisturbed = max(w.calm, until), max(w.undisturbed, until)
	}
	return until
}

func (w *world) bootID() string { return fmt.Sprintf("boot-%d", w.boot) }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// wall is the time of day, which can be stepped.
func (w *world) wall() time.Time { return epoch.Add(w.now + w.stepped) }

// wait is engine.Config.Wait on the clock of the world. What ends a wait is asked in a fixed order, never by a select over
// what is ready: the end of the daemon, a call that wakes the engine, the time. So a seed has one history, on every machine.
func (w *world) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	w.point(opWait, Before, "")
	if w.guarding && !w.apiAway() {
		w.stop() // the daemon's pod comes
	}
	if ctx.Err() != nil {
		return
	}
	if now, ok := w.engine.Current(); ok && w.scenario.Sanitize && !w.apiAway() {
		w.engine.Asked(now.Job.Name)
	}
	select {
	case <-wake:
		return
	default:
	}
	if d < 0 {
		w.idle()
		return
	}
	w.advance(d)
}

// idle is an engine that has nothing to do: it is left alone for as long as the run says, and then the daemon ends.
func (w *world) idle() {
	w.idled = true
	if w.quiet == 0 {
		w.stop()
		return
	}
	d := w.quiet
	w.quiet = 0
	w.advance(d)
}

// apiAway reports whether the API server tells the node nothing: it is away, it answers errors, or the NIC that leads to it carries
// nothing.
func (w *world) apiAway() bool { return w.now < w.apiBack || w.now < w.erring || w.cutOff() }

// errAPI is the error of a question to it then.
func (w *world) errAPI() error {
	if w.now < w.erring && !w.cutOff() {
		return errServer
	}
	return errAway
}

// cutOff reports whether the only NIC that leads to the API server carries nothing.
func (w *world) cutOff() bool {
	leads := func(d *device) bool { return d.spec.Uplink && !d.gone && w.carries(d) }
	return slices.ContainsFunc(w.scenario.Devices, func(s DeviceSpec) bool { return s.Uplink }) && !slices.ContainsFunc(w.devices, leads)
}

// ails reports whether the link of a device is down that the running job changed. Where the job has no NIC, the API server is what is missed.
func (w *world) ails() bool {
	job := w.disk.Active()
	if !slices.ContainsFunc(w.scenario.Devices, func(s DeviceSpec) bool { return s.Class == inventory.NIC }) {
		return false
	}
	return w.unfinished() && slices.ContainsFunc(w.devices, func(d *device) bool {
		return !d.bystander && !d.gone && !d.spec.Staged && w.sim.LinkDown(d.id.UniqueID) && job.Record.Touched(nameOf(d.id.UniqueID))
	})
}

// reach notes when the node is cut off, or nobody but itself can tell that it is unwell, and when that is over.
func (w *world) reach() {
	if is := w.cutOff() || w.now < w.erring && w.ails(); is != w.wasCutOff {
		w.wasCutOff = is
		w.note(Event{Kind: map[bool]EventKind{true: EventCutOff, false: EventReachable}[is]})
	}
}

func (w *world) diskGone() bool { return w.now < w.diskBack }

func (w *world) device(uniqueID string) *device {
	for _, d := range w.devices {
		if d.id.UniqueID == uniqueID {
			return d
		}
	}
	return nil
}

func seeded(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(n), 0x637574)) } //nolint:gosec // any seed does
