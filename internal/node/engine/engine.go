package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Images provides verified firmware images as files of this host.
type Images interface {
	// Fetch returns the path and the size in bytes of the image. It returns a *driver.RejectedError when the image can
	// never be had, and any other error when it is worth trying again.
	Fetch(ctx context.Context, digest inventory.Digest) (path string, size int64, err error)
}

// Host reads the devices of this host.
type Host interface {
	// Find reads one device afresh; found is false when no device of the class has the unique id. Device.Err says why a
	// device that is there cannot be read; err says why it is not known whether it is there.
	Find(ctx context.Context, class inventory.Class, uniqueID string) (device inventory.Device, found bool, err error)
	// Scan reads all devices afresh.
	Scan(ctx context.Context) ([]inventory.Device, error)
}

// Writes finds writes to devices that outlived the process that began them. The lock of a write is the unique id of the
// device.
type Writes interface {
	// WriteRunning reports whether a write under the lock still runs, whichever process began it.
	WriteRunning(lock string) (bool, error)
}

// Rebooter reboots the host.
type Rebooter interface {
	// Reboot requests a reboot and returns once the request is accepted.
	Reboot(ctx context.Context) error
	// CanReboot returns nil when a reboot can be requested, as far as the host can tell without one: it may still refuse.
	CanReboot(ctx context.Context) error
}

// Health judges the host.
type Health interface {
	// Check lists what is worse on the host than in the baseline or not as the targets say; nil when it is healthy. An
	// error means that its health is not known; one that wraps health.ErrUnanswered comes with what the host knows itself.
	Check(ctx context.Context, b health.Baseline, targets []health.Target) ([]health.Complaint, error)
	// Look is the part of Check that the host answers by itself.
	Look(ctx context.Context, b health.Baseline, targets []health.Target) ([]health.Complaint, error)
	// LookAlone is Look on a host whose API server does not answer.
	LookAlone(ctx context.Context, b health.Baseline, targets []health.Target) ([]health.Complaint, error)
	// Take returns the baseline of the host before anything is changed; the devices are those of a scan.
	Take(ctx context.Context, devices []inventory.Device) health.Baseline
	// Before lists what is wrong before anything was changed and would be blamed on it afterwards; nil when nothing is.
	Before(ctx context.Context) ([]health.Complaint, error)
}

// Archive keeps on this host what ran on its devices before.
type Archive interface {
	// Keep archives an image which fill writes to the new file it is given. An entry of the same device, version and boot
	// that is whole is used again and fill is not called; one that is not is replaced. Once Keep returned nil the entry
	// survives a power cut, and older ones of the device may have been pruned.
	Keep(ctx context.Context, m archive.Manifest, fill func(ctx context.Context, path string) error) error
	// Image returns the newest archived image of the version that is whole and was not archived from an unhealthy host, as
	// a file to write back. It returns an error that wraps archive.ErrNone when there is none.
	Image(uniqueID string, version inventory.Version) (driver.Image, archive.Manifest, error)
	// Restorable returns the image of an entry by its name, as a file to write back, or an error that says why it must not be.
	Restorable(entry string) (driver.Image, archive.Manifest, error)
}

// Journal remembers jobs and devices over the death of the process. *journal.Journal is one.
type Journal interface {
	View() (journal.View, error)
	// Save writes the job and the devices in one transaction, which is on disk when it returns nil.
	Save(job journal.Job, devices ...journal.Device) error
	// TakeOver writes a new job and that it superseded the one that held the node, in one transaction.
	TakeOver(next, held journal.Job) error
}

// Tasks runs the steps that are not part of every update.
type Tasks interface {
	// Run runs one of them, of the host or, where the step names one, of a device of the job. The request is zero for a
	// step that no person requested by name. Repeating it is harmless. While what a Lasting step began goes on by itself, Run returns how far that
	// is and nothing else: the attempt is not over, and looks again after a while.
	Run(ctx context.Context, s step.Step, request journal.RequestedStep, device journal.Update) (*step.Returned, *Underway)
	// Check returns why a step that was not begun must not be, as far as that is known before the host is disturbed; nil when it may be. It
	// changes nothing.
	Check(ctx context.Context, s step.Step, device journal.Update) *step.Failure
}

// Underway is how far what a step began is, which goes on by itself.
type Underway struct {
	// Percent is negative where it is not known.
	Percent int
	// Message says what goes on, for people. Where the percentage is not known, that of the first time is kept.
	Message string
	// Gone says that the device is not there, which fails the step once that has lasted for Limits.Read.
	Gone bool
}

// Config is what an Engine works with. All fields are required but Tasks, Uses, Guard, Volatile, Free, MaxInMemory, BootTime, Kexec, Kernel, SinceBoot, Limits, Poll, Grace, Elapsed,
// Now, Wait, Notify and Log.
type Config struct {
	Journal Journal
	Archive Archive
	Tasks   Tasks
	// Catalog holds the steps of this host; the zero Catalog those of package plan.
	Catalog     plan.Catalog
	Host        Host
	Drivers     driver.Set
	Images      Images
	Maintenance maintenance.Window
	Writes      Writes
	// Uses reads what uses the drives of the host; nil where that is not known.
	Uses     Uses
	Rebooter Rebooter
	Health   Health
	// Guard starts an engine on a host that its network adapter cuts off over a reboot; nil where there is none.
	Guard Guard
	// Volatile says why the journal is gone after a reboot, for people; empty where it stays. No job begins then.
	Volatile string
	// Free returns how many bytes the file system of a directory has left; nil where nothing says so.
	Free func(dir string) (int64, error)
	// MaxInMemory is that of the command.Config of the drivers' runner; zero for its default.
	MaxInMemory int64
	// BootID reads the boot id of the running kernel.
	BootID func() (string, error)
	// BootTime is how long this boot of the host took, as far as that is known, with an error for the rest; nil where it never is.
	BootTime func(ctx context.Context) (step.BootTime, error)
	// Kexec reads whether the running kernel was started by another one; nil where nothing says so.
	Kexec func() (bool, error)
	// Kernel reads the release of the running kernel; nil where nothing says so.
	Kernel func() (string, error)
	// SinceBoot is for how long the kernel has run, by a clock that nobody sets. A wait of a node that is cut off goes on by it
	// when the daemon is restarted; nil where such a wait begins anew.
	SinceBoot func() (time.Duration, error)
	// Limits bound the waits; zero for step.DefaultLimits.
	Limits step.Limits
	// Poll is how often something that is waited for is looked at; zero for 2 s.
	Poll time.Duration
	// Grace is how long a running write is waited for after the context ended. It should be a little less than the time
	// the process is given to end. The write goes on in any case.
	Grace time.Duration
	// Elapsed is the monotonic clock by which waits are measured, so that stepping the clock of the host shortens and
	// lengthens none; nil for that of this process.
	Elapsed func() time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
	// Wait is the only place where the engine waits: for the duration, until wake receives or until the context ends,
	// whichever comes first. A negative duration never ends by itself. Nil for the clock of this process, where chance
	// decides among what comes at the same time; a simulation decides that itself, so that a run can be repeated.
	Wait func(ctx context.Context, d time.Duration, wake <-chan struct{})
	// Notify is called with each change of a job, from the goroutine that executes or cancels it. It must not block.
	Notify func(Snapshot)
	Log    *slog.Logger
}

// Snapshot is how far a job is at one moment.
type Snapshot struct {
	Job journal.Job
	// Percent is the progress of the running step, nil when it is not known.
	Percent *int32
	// Beside is how far the other drives are that erase themselves meanwhile, by the index of the step. It is never changed.
	Beside map[int]Underway
	// Waiting says what the current step waits for; empty when it does not wait.
	Waiting string
	// Overdue says that the running step has made no progress for longer than it should; empty while it has.
	Overdue string
	// Cancelling says what the cancellation of the job waits for; nil where there is none, and where it waits for nothing.
	Cancelling *Awaited
	// Maintenance is how the node's maintenance stood when it was last asked.
	Maintenance maintenance.State
	// Look is how that of a held node stood when somebody last looked at it; zero where nobody has.
	Look maintenance.State
	// Transition is false when only Percent changed.
	Transition bool
}

// Engine executes the jobs of one host, one at a time. Submit, CancelUnstarted, Cancel, Release and Current are safe to call
// while Run works.
type Engine struct {
	cfg  Config
	wake chan struct{}

	mu sync.Mutex
	// current is the job that is executed now.
	current *Snapshot
	// cancelled is the cancellation of that job, by its UID.
	cancelled map[string]*cancelling
	// asks says that somebody reads the objects of jobs, and asked of which that was done since this process began, by name.
	asks  bool
	asked map[string]bool
	// interrupt ends what the running step does, where that may be; nil where it may not.
	interrupt context.CancelFunc
}

const defaultPoll = 2 * time.Second

// New makes an engine.
func New(cfg Config) *Engine {
	if cfg.Limits == (step.Limits{}) {
		cfg.Limits = step.DefaultLimits()
	}
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Elapsed == nil {
		began := time.Now()
		cfg.Elapsed = func() time.Duration { return time.Since(began) }
	}
	if cfg.Wait == nil {
		cfg.Wait = wait
	}
	if cfg.Notify == nil {
		cfg.Notify = func(Snapshot) {}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Engine{cfg: cfg, wake: make(chan struct{}, 1), cancelled: map[string]*cancelling{}, asked: map[string]bool{}}
}

// Run executes what the journal holds and what Submit brings until the context ends. It needs no API server: start it
// before anything that does, so that a job interrupted by a reboot is finished even while the cluster cannot be reached. It returns
// nil when the context ended.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock()
	e.asks = true
	e.mu.Unlock()
	for {
		view, err := e.cfg.Journal.View()
		if err != nil {
			return err
		}
		if job := view.Active(); job != nil && job.Record.Outcome == "" {
			_, err = e.Execute(ctx, *job)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				continue
			}
			e.cfg.Log.Error("Job could not be journalled", "job", job.Name, "err", err)
			e.cfg.Wait(ctx, e.cfg.Poll, e.wake)
			continue
		}
		e.cfg.Wait(ctx, e.unguard(ctx), e.wake)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// forever is the duration of a wait that only a call or the end of the context ends.
const forever time.Duration = -1

// wait is Config.Wait on the clock of this process.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	var over <-chan time.Time
	if d >= 0 {
		over = time.After(d)
	}
	select {
	case <-over:
	case <-wake:
	case <-ctx.Done():
	}
}

// Execute journals the job and executes it to its end, held or not, or until the context ends. It must not be called
// while Run works. A job the journal knows already is continued.
func (e *Engine) Execute(ctx context.Context, job journal.Job) (journal.Job, error) {
	if err := e.cfg.Journal.Save(job); err != nil {
		return job, err
	}
	x := &execution{Engine: e, job: classified(job), interrupted: true, since: e.cfg.Elapsed(), at: -2, drives: map[int]drive{}}
	x.publish(true)
	defer x.retire()
	for x.job.Record.Outcome == "" {
		if ctx.Err() != nil {
			return x.job, context.Cause(ctx)
		}
		if wait := x.pass(ctx); wait > 0 {
			e.cfg.Wait(ctx, wait, e.wake)
		}
	}
	return x.job, nil
}

// classified fills in the classes of devices, which records had not at first: without them nothing that a device drives is blamed on it.
func classified(job journal.Job) journal.Job {
	job.Record = job.Record.Clone()
	for i := range job.Record.Updates {
		r := &job.Record.Updates[i]
		for _, u := range job.Updates {
			if u.Device == r.Device {
				r.Class = cmp.Or(r.Class, u.Class)
			}
		}
	}
	return job
}

// ErrBusy says that another job runs on the host.
var ErrBusy = errors.New("another job runs on this node")

// inherit measures the job against the baseline of the one that held the node, unless a person asked for another try since:
// what is missing then may be what was replaced, and only what the held job changed, and is still there, is measured against
// what it was.
func inherit(job *journal.Job, held journal.Job) {
	if held.Baseline == nil || !job.Clearance().Clears(held.Retry) {
		job.Baseline, job.Expected = held.Baseline, held.Expected
		return
	}
	expected := health.Baseline{}
	for _, d := range held.Baseline.Devices {
		changed := func(u journal.Update) bool { return u.UniqueID == d.UniqueID && held.Record.Touched(u.Device) }
		if slices.ContainsFunc(held.Updates, changed) || held.Expected.Has(d.UniqueID) {
			expected.Devices = append(expected.Devices, d)
		}
	}
	job.Expected = &expected
}

// Submit makes the job the next to be executed. A job that holds the node after its failure is superseded: the new one
// goes on in the same maintenance and is measured against the same baseline, or a new one on the request of a person. One that runs steps or
// backs up runs while the node stays held, and supersedes nothing: only a job that cleans the node supersedes another one that did. It returns ErrBusy while a job runs, and does nothing when the journal knows the job.
func (e *Engine) Submit(job journal.Job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	view, err := e.cfg.Journal.View()
	if err != nil {
		return err
	}
	if view.Job(job.UID) != nil {
		return nil
	}
	if active := view.Active(); active != nil && active.Record.Outcome == "" {
		return fmt.Errorf("start job %s: %w: %s", job.Name, ErrBusy, active.Name)
	}
	held := view.Held()
	if held != nil {
		job.Cordon = held.Cordon
	}
	switch {
	case held == nil:
		err = e.cfg.Journal.Save(job)
	case job.Backup || len(job.Requested) > 0 && !(job.Record.Cleans() && held.Record.Cleans()):
		job.Record, job.Baseline = step.Hold(job.Record), held.Baseline
		err = e.cfg.Journal.Save(job)
	default:
		job.Record.Inherited = true
		inherit(&job, *held)
		err = e.cfg.Journal.TakeOver(job, *held)
	}
	e.kick()
	return err
}

// CancelUnstarted ends a job that has not begun, for the reason a person gave. It does nothing when the journal knows the
// job.
func (e *Engine) CancelUnstarted(job journal.Job, reason string) error {
	view, err := e.cfg.Journal.View()
	if err != nil || view.Job(job.UID) != nil {
		return err
	}
	job.Cancel = &reason
	return e.endUnstarted(job)
}

// Refuse ends a job that the journal does not know and whose record has the failure for which it must not begin. A failure that holds
// the node does so from then on. A job that holds the node is not superseded. It does nothing when the journal knows the job.
func (e *Engine) Refuse(job journal.Job) error {
	view, err := e.cfg.Journal.View()
	if err != nil || view.Job(job.UID) != nil {
		return err
	}
	return e.endUnstarted(job)
}

// endUnstarted journals the end of a job that was cancelled or failed before it began.
func (e *Engine) endUnstarted(job journal.Job) error {
	x := &execution{Engine: e, job: job, silent: true}
	facts := step.Facts{Cancel: job.Cancel, BootID: "none"}
	for x.job.Record.Outcome == "" {
		if err := x.record(step.Next(x.job.Record, facts, e.cfg.Limits), facts); err != nil {
			return err
		}
	}
	e.cfg.Notify(Snapshot{Job: x.job, Transition: true})
	return nil
}

// Release returns the node that the job holds to service. It does nothing while steps run on the held node; ask again when
// they have ended.
func (e *Engine) Release(uid string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	view, err := e.cfg.Journal.View()
	if err != nil {
		return err
	}
	job, active := view.Job(uid), view.Active()
	if job == nil || !job.Held() || active.Record.Outcome == "" {
		return nil
	}
	released := *job
	released.Record, released.Finished, released.Reported = step.Release(job.Record), nil, false
	if err := e.cfg.Journal.Save(released); err != nil {
		return err
	}
	e.kick()
	return nil
}

// Current is how far the job is that is executed now; ok is false while none is.
func (e *Engine) Current() (s Snapshot, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil {
		return Snapshot{}, false
	}
	return *e.current, true
}

func (e *Engine) kick() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// task runs a step that is not part of every update.
func (x *execution) task(ctx context.Context, s step.Step) (ret *step.Returned, underway *Underway) {
	if x.cfg.Tasks == nil {
		return failed(s, step.StepFailed, fmt.Sprintf("this daemon does not know the step %s", s.Kind)), nil
	}
	run := func(ctx context.Context, s step.Step) (ret *step.Returned) {
		ret, underway = x.cfg.Tasks.Run(ctx, s, x.request(s), x.update(s.Device))
		return ret
	}
	if s.Changes {
		ret = x.outliving(ctx, s, run)
		return ret, underway
	}
	ret = x.interruptibly(ctx, s, run)
	if ctx.Err() != nil {
		return nil, nil // a read that failed because this process is to end says nothing
	}
	return ret, underway
}

// request is the person's request for the step; zero where there is none.
func (x *execution) request(s step.Step) journal.RequestedStep {
	for _, r := range x.job.Requested {
		if r.Name == string(s.Kind) && (r.Device == "" || r.Device == s.Device) {
			return r
		}
	}
	return journal.RequestedStep{}
}
