package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	machines "github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// drive is a host with one drive, whose jobs run through the real engine and journal. It is killed where a test says so.
type drive struct {
	*host
	// points counts what happens outside the engine; it dies at the one with the number dies, 0 for none.
	points, dies int
	// power is what happens to the machine when it dies.
	power func()
	users []string
	// pods says that the users are pods.
	pods bool
	// arguments of the step.
	arguments []plan.Argument
	deadline  time.Duration
	limits    step.Limits
	overdue   []string
	percents  []int32
	// told happens after the drive was told to erase itself, in place of the answer where it returns an error.
	told func() error
	// engine of the current life.
	engine *engine.Engine
}

const secret = "a secret that nobody may read. "

// began is when the first samples are read.
var began = time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)

const diskSize = 1 << 20

func newDrive(t *testing.T, methods ...driver.EraseMethod) *drive {
	h := &host{bench: newBench(t), state: t.TempDir()}
	d := &drive{host: h, power: func() {}, arguments: []plan.Argument{{Name: "serialNumber", Value: "S1"}}}
	d.plug("disk0", "S1", methods...)
	h.drv = mortalDriver{h.sim, d}
	h.tasks.Drivers = driver.Set{h.drv}
	h.tasks.Eraser = erase.Eraser{Disks: d, Seed: func() uint64 { return 42 }, Now: func() time.Time { return began }}
	return d
}

// plug adds a drive.
func (d *drive) plug(name, serial string, methods ...driver.EraseMethod) {
	id := disk
	id.UniqueID, id.SerialNumber = name, serial
	d.add(id, inventory.Firmware{Running: "1.0", Activation: inventory.ActivateReboot})
	d.sim.Erasable(name, bytes.Repeat([]byte(secret), diskSize/len(secret)+1)[:diskSize], methods...)
}

// point is a place at which the process can die.
func (d *drive) point() {
	d.points++
	if d.points == d.dies {
		d.power()
		runtime.Goexit()
	}
}

type mortalDriver struct {
	*drivertest.Simulated
	d *drive
}

func (m mortalDriver) Erasure(ctx context.Context, id inventory.Identity) (driver.Erasure, error) {
	m.d.point()
	e, err := m.Simulated.Erasure(ctx, id)
	m.d.point()
	return e, err
}

func (m mortalDriver) Erase(ctx context.Context, id inventory.Identity, method driver.EraseMethod) error {
	m.d.point()
	err := m.Simulated.Erase(ctx, id, method)
	if m.d.told != nil {
		err = m.d.told()
	}
	m.d.point()
	return err
}

type mortalJournal struct {
	*journal.Journal
	d *drive
}

func (j mortalJournal) Save(job journal.Job, devices ...journal.Device) error {
	j.d.point()
	err := j.Journal.Save(job, devices...)
	j.d.point()
	return err
}

// Unused implements erase.Disks.
func (d *drive) Unused(context.Context, inventory.Identity) error {
	if len(d.users) > 0 {
		return &machines.InUseError{By: d.users, Pods: d.pods}
	}
	return nil
}

// Claim implements erase.Disks.
func (d *drive) Claim(ctx context.Context, id inventory.Identity) ([]machines.Volume, error) {
	d.point()
	if err := d.Unused(ctx, id); err != nil {
		return nil, err
	}
	return d.Volumes(ctx, id)
}

// Volumes implements erase.Disks.
func (d *drive) Volumes(_ context.Context, id inventory.Identity) ([]machines.Volume, error) {
	return []machines.Volume{{Name: "nvme0n1", ID: "1", Size: diskSize, ReaderAt: d.sim.Reader(id.UniqueID), Closer: io.NopCloser(nil)}}, nil
}

// job is one that erases the drives.
func (d *drive) job() journal.Job {
	catalog, err := steps.NewCatalog(d.tasks.Drivers, nil)
	require.NoError(d, err)
	j := journal.Job{Name: "j", UID: "uid-j", Accepted: time.Now()}
	var requests []plan.Request
	var targets []plan.Target
	var updates []step.Update
	for _, id := range d.ids {
		arguments := d.arguments
		if id.UniqueID != "disk0" {
			arguments = []plan.Argument{{Name: "serialNumber", Value: id.SerialNumber}}
		}
		requests = append(requests, plan.Request{Name: "erase", Device: id.UniqueID, Arguments: arguments, Deadline: d.deadline})
		targets = append(targets, plan.Target{Device: id.UniqueID, Class: inventory.Disk, Driver: d.drv.Name()})
		updates = append(updates, step.Update{Device: id.UniqueID})
		j.Requested = append(j.Requested, journal.RequestedStep{Name: "erase", Device: id.UniqueID})
		j.Updates = append(j.Updates, update(id, ""))
	}
	list, err := catalog.Requested(requests, targets)
	require.NoError(d, err)
	j.Record = step.New(list, updates...)
	return j
}

// life is one life of the process. It ends with the job, when ended is true of how far it is, or in death.
func (d *drive) life(j journal.Job, ended func(engine.Snapshot) bool) journal.Job {
	died := make(chan struct{})
	go func() {
		defer close(died)
		book, err := journal.Open(d.state)
		if !assert.NoError(d, err) {
			return
		}
		defer func() { assert.NoError(d, book.Close()) }()
		ctx, stop := context.WithCancel(d.Context())
		defer stop()
		d.stop = stop
		e := engine.New(engine.Config{
			Journal: mortalJournal{book, d}, Host: d, Drivers: d.tasks.Drivers, Maintenance: &maintenance.None{}, Writes: d, Rebooter: d,
			Health: health.Checker{Scanner: d}, Tasks: d.tasks, BootID: func() (string, error) { return fmt.Sprint("boot-", d.boots), nil },
			Poll: time.Millisecond, Limits: d.limits,
			Notify: func(s engine.Snapshot) {
				if s.Overdue != "" {
					d.overdue = append(d.overdue, s.Overdue)
				}
				if s.Percent != nil {
					d.percents = append(d.percents, *s.Percent)
				}
				if ended(s) {
					stop()
				}
			},
		})
		d.engine = e
		if _, err = e.Execute(ctx, j); ctx.Err() == nil {
			assert.NoError(d, err)
		}
	}()
	<-died
	book, err := journal.Open(d.state)
	require.NoError(d, err)
	defer func() { require.NoError(d, book.Close()) }()
	view, err := book.View()
	require.NoError(d, err)
	if now := view.Job(j.UID); now != nil {
		return *now
	}
	return j
}

func never(engine.Snapshot) bool { return false }

// erase runs the job to its end, however often the process dies.
func (d *drive) erase() journal.Job {
	j := d.job()
	for range 10 {
		if j = d.life(j, never); j.Record.Outcome != "" {
			return j
		}
	}
	require.Fail(d, "the job does not end")
	return j
}

func (d *drive) begun() int { return d.sim.Count(drivertest.OpErase, "disk0") }

// data is what the drive stores.
func (d *drive) data() string {
	b := make([]byte, diskSize)
	_, err := d.sim.Reader("disk0").ReadAt(b, 0)
	require.NoError(d, err)
	return string(b)
}

func (d *drive) fails(j journal.Job, message string) {
	d.Helper()
	require.Equal(d, step.Failed, j.Record.Outcome)
	assert.Equal(d, step.StepFailed, j.Record.Failure.Reason)
	assert.Contains(d, j.Record.Failure.Message, message)
}

// R003-4, R003-43: a person's job erases the one drive that it names, by the first method that the drive offers, and proves it.
func TestErase(t *testing.T) {
	for asked, c := range map[string]struct {
		offers []driver.EraseMethod
		says   string
	}{
		"":          {[]driver.EraseMethod{driver.EraseCrypto, driver.EraseBlock}, "crypto erase"},
		"Block":     {[]driver.EraseMethod{driver.EraseCrypto, driver.EraseBlock}, "block erase"},
		"Overwrite": {driver.EraseMethods(), "overwrite"},
	} {
		t.Run("by "+asked, func(t *testing.T) {
			d := newDrive(t, c.offers...)
			if asked != "" {
				d.arguments = append(d.arguments, plan.Argument{Name: "method", Value: asked})
			}
			j := d.erase()
			require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
			assert.Equal(t, 1, d.begun())
			assert.Equal(t, "erased by a simulated tool, "+c.says+"; log: completed; 64 samples of 4096 bytes, seed 0x2a: 64 held data before, none is as it was",
				j.Record.Steps[2].Message)
			assert.Equal(t, &erase.Proof{
				SerialNumber: "S1", Vendor: disk.Vendor, Model: disk.Model, Method: "a simulated tool, " + c.says, Log: "log: completed", Size: diskSize,
				Samples: 64, Held: 64, Seed: 42, Began: began, Version: version.Current(),
			}, erase.ReadProof(j.Record.Steps[2].Data), "what its certificate says")
			assert.NotContains(t, d.data(), secret)
			assert.Contains(t, d.percents, int32(75), "the drive says how far it is")
			assert.Zero(t, d.boots)
		})
	}
}

// What is not the named drive, is in use, or cannot do what was asked is refused before the node is disturbed.
func TestDriveThatMustNotBeErasedIsLeftAlone(t *testing.T) {
	argument := func(name, value string) func(*drive) {
		return func(d *drive) { d.arguments = append([]plan.Argument{{Name: name, Value: value}}, d.arguments...) }
	}
	for says, change := range map[string]func(*drive){
		`has the serial number "S1", and the step names "S2"`:               argument("serialNumber", "S2"),
		"in use: nvme0n1p2 is mounted on /; / is on it":                     func(d *drive) { d.users = []string{"nvme0n1p2 is mounted on /", "/ is on it"} },
		"does not erase by Overwrite; it offers Crypto, Block":              argument("method", "Overwrite"),
		`the method "Shredder" is none of Crypto, Block, Overwrite`:         argument("method", "Shredder"),
		"another host may use it, and all of it would be erased":            func(d *drive) { d.sim.Shared("disk0") },
		"stores the firmware 2.0, which waits for its activation":           func(d *drive) { d.sim.Stage("disk0", "2.0", "") },
		"the drive does not erase itself":                                   func(d *drive) { d.sim.Erasable("disk0", make([]byte, diskSize)) },
		"erases itself already (log: in progress, 0 %), which this job did": func(d *drive) { d.other() },
		"it cannot be told on this host whether the drive is in use":        func(d *drive) { d.tasks.Eraser.Disks = nil },
		"an earlier erasure of the drive failed (log: failed), and it gives no data that could be compared; end that state with \"simulated-tool leave\" on the node, or, " +
			"where the drive refuses that, with another sanitize by hand": func(d *drive) {
			d.sim.Inject("disk0", drivertest.FailErase)
			d.other()
			for range 5 {
				_, _ = d.sim.Erasure(d.Context(), d.ids[0])
			}
		},
	} {
		t.Run(says, func(t *testing.T) {
			d := newDrive(t, driver.EraseCrypto, driver.EraseBlock)
			change(d)
			before := d.begun()
			j := d.erase()
			d.fails(j, says)
			assert.Contains(t, j.Record.Failure.Message, "disk0: nothing was erased: ")
			assert.Equal(t, plan.Preflight, j.Record.Failure.Step)
			assert.False(t, j.Record.Failure.Held)
			assert.Equal(t, before, d.begun())
		})
	}
}

// other begins an erasure that is none of a job.
func (d *drive) other() { require.NoError(d, d.sim.Erase(d.Context(), d.ids[0], driver.EraseCrypto)) }

// What begins to use the drive while the node is drained keeps it from being erased.
func TestDriveIsLookedAtAgainRightBeforeItIsErased(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	j := d.life(d.job(), func(s engine.Snapshot) bool {
		if cur := s.Job.CurrentStep(); cur != nil && cur.Kind == plan.Erase && cur.State == step.Running && cur.Data != nil {
			d.users = []string{"dd (process 7) has it open"}
		}
		return false
	})
	d.fails(j, "nothing was erased: the drive is in use: dd (process 7) has it open")
	assert.Zero(t, d.begun())
	assert.True(t, j.Record.Failure.Held)
	assert.Contains(t, d.data(), secret)
}

// What pods use is in use until the node is drained, and not a reason to leave the node alone.
func TestDriveThatPodsUseIsErasedAfterTheDrain(t *testing.T) {
	for name, leaves := range map[string]bool{"they leave": true, "they stay": false} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, driver.EraseCrypto)
			d.users, d.pods = []string{"nvme0n1 is mounted on /var/lib/kubelet/pods/1/volumes/data"}, true
			j := d.life(d.job(), func(s engine.Snapshot) bool {
				if cur := s.Job.CurrentStep(); leaves && cur != nil && cur.Kind == plan.Maintenance {
					d.users = nil
				}
				return false
			})
			if leaves {
				assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
				assert.Equal(t, 1, d.begun())
				return
			}
			d.fails(j, "nothing was erased: the drive is in use: nvme0n1 is mounted on /var/lib/kubelet/pods/1/volumes/data")
			assert.Equal(t, plan.Erase, j.Record.Failure.Step)
			assert.Zero(t, d.begun())
		})
	}
}

// A drive that claims to be erased and is not, one that fails, and one that loses what it said are no proof of anything.
func TestDriveThatIsNotProvenErasedHoldsTheNode(t *testing.T) {
	const unproven = "the drive is NOT proven erased"
	for says, change := range map[string]func(*drive){
		unproven + ", though it says so (log: completed): nvme0n1 still has at byte 0 what was there before": func(d *drive) { d.sim.Inject("disk0", drivertest.LieErase) },
		unproven + ": its erasure by a simulated tool, crypto erase failed (log: failed), and it gives no data; end that state with \"simulated-tool leave\" on the node, or, " +
			"where the drive refuses that, with another sanitize by hand, then request the step again": func(d *drive) {
			d.sim.Inject("disk0", drivertest.FailErase)
		},
		"it says so (log: completed): nvme0n1 has at byte 65536 what looks like a btrfs file system": func(d *drive) {
			d.sim.Inject("disk0", drivertest.LieErase)
			d.sim.Erasable("disk0", make([]byte, diskSize), driver.EraseCrypto)
			d.sim.Fill("disk0", 65536+64, []byte("_BHRfS_M"))
		},
	} {
		t.Run(says, func(t *testing.T) {
			d := newDrive(t, driver.EraseCrypto)
			change(d)
			j := d.erase()
			if strings.Contains(says, "btrfs") {
				d.fails(j, "still has at byte 65536")
			} else {
				d.fails(j, says)
			}
			assert.True(t, j.Record.Failure.Held)
			assert.Equal(t, plan.Erase, j.Record.Failure.Step)
			assert.Nil(t, erase.ReadProof(j.Record.Steps[2].Data), "a drive that lies gets no certificate")
			assert.Equal(t, 1, d.begun())
		})
	}
}

// late is a machine that does not list a device for so many looks.
type late struct {
	steps.Machine
	looks int
}

// Find implements steps.Machine.
func (l *late) Find(ctx context.Context, class inventory.Class, uniqueID string) (inventory.Device, bool, error) {
	if l.looks > 0 {
		l.looks--
		return inventory.Device{}, false, nil
	}
	return l.Machine.Find(ctx, class, uniqueID)
}

// A drive may be listed late after a reboot, or be away for a while. One that does not come back is not said to be erased.
func TestDriveThatDisappearsIsWaitedFor(t *testing.T) {
	const gone = "the drive is NOT proven erased: no device with the unique id disk0 is on this node"
	for name, returns := range map[string]bool{"it comes back": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, driver.EraseCrypto)
			d.sim.Inject("disk0", drivertest.HangErase)
			if !returns {
				d.limits = step.DefaultLimits()
				d.limits.Read = 20 * time.Millisecond
			}
			away := &late{Machine: d.tasks.Machine}
			d.tasks.Machine = away
			waited := false
			j := d.life(d.job(), func(s engine.Snapshot) bool {
				waited = waited || strings.Contains(s.Waiting, gone)
				if s.Percent != nil && away.looks == 0 && !waited {
					d.sim.Cure("disk0", drivertest.HangErase)
					if away.looks = 1 << 30; returns {
						away.looks = 5
					}
				}
				return false
			})
			assert.True(t, waited)
			if returns {
				assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
				return
			}
			d.fails(j, gone)
			assert.True(t, j.Record.Failure.Held)
		})
	}
}

// cancels has a person cancel the job in its life.
func (d *drive) cancels(force bool) {
	d.engine.Cancel("uid-j", engine.Cancellation{Reason: "cancelled by a person", Force: force})
}

// A cancellation that comes before the drive is told keeps it from being told, wherever the daemon dies.
func TestCancelledErasureIsNotBegun(t *testing.T) {
	survived := false
	for at := 0; !survived; at++ {
		d := newDrive(t, driver.EraseCrypto)
		d.dies = at
		sampled := func(s engine.Snapshot) bool {
			if cur := s.Job.CurrentStep(); cur != nil && cur.Kind == plan.Erase && cur.Data != nil {
				d.cancels(false)
			}
			return false
		}
		j := d.job()
		for j.Record.Outcome == "" {
			j = d.life(j, sampled)
		}
		survived = at > 0 && d.points < at
		require.Equal(t, step.Failed, j.Record.Outcome, "killed at %d", at)
		require.Equal(t, step.Cancelled, j.Record.Failure.Reason, "killed at %d: %+v", at, j.Record.Failure)
		require.Zero(t, d.begun(), "killed at %d", at)
		require.Contains(t, d.data(), secret)
		if at == 0 {
			assert.Equal(t, "cancelled before the drive was told to erase itself: cancelled by a person", j.Record.Failure.Message)
		}
	}
}

// Once a drive erases itself only force ends the job, which says that the drive goes on.
func TestErasureIsGivenUpByForceOnly(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	d.sim.Inject("disk0", drivertest.HangErase)
	asked := false
	j := d.life(d.job(), func(s engine.Snapshot) bool {
		if s.Percent != nil {
			d.cancels(asked)
			asked = true
		}
		return asked && s.Cancelling != nil && !s.Cancelling.Force
	})
	require.Empty(t, j.Record.Outcome, "%+v", j.Record.Failure)
	j = d.life(j, func(s engine.Snapshot) bool {
		if s.Percent != nil {
			d.cancels(true)
		}
		return false
	})
	require.Equal(t, step.Failed, j.Record.Outcome)
	assert.Equal(t, step.Cancelled, j.Record.Failure.Reason)
	assert.Contains(t, j.Record.Failure.Message, "; the drive may be erasing itself, which nothing stops, and is NOT proven erased")
	assert.True(t, j.Record.Failure.Held)
}

// A person may have cancelled the job while the daemon did not run: under Run nothing is begun before somebody has read its object.
func TestDriveIsNotToldBeforeTheJobWasReadAgain(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	book, err := journal.Open(d.state)
	require.NoError(t, err)
	defer func() { require.NoError(t, book.Close()) }()
	require.NoError(t, book.Save(d.job()))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	d.stop = stop
	waited := false
	var ended *step.Record
	var e *engine.Engine
	e = engine.New(engine.Config{
		Journal: book, Host: d, Drivers: d.tasks.Drivers, Maintenance: &maintenance.None{}, Writes: d, Rebooter: d, Health: health.Checker{Scanner: d}, Tasks: d.tasks,
		BootID: func() (string, error) { return "boot", nil }, Poll: time.Millisecond,
		Notify: func(s engine.Snapshot) {
			if strings.Contains(s.Waiting, "not known yet whether the job was cancelled meanwhile") {
				waited = true
				assert.Zero(t, d.begun())
				e.Asked("another")
				e.Asked("j")
			}
			if s.Job.Record.Outcome != "" {
				ended = &s.Job.Record
				stop()
			}
		},
	})
	require.NoError(t, e.Run(ctx))
	assert.True(t, waited)
	require.NotNil(t, ended)
	assert.Equal(t, step.Complete, ended.Outcome, "%+v", ended.Failure)
	assert.Equal(t, 1, d.begun())
}

// A drive that answers nobody right after it was told is waited for: the samples are kept, and it is asked again.
func TestDriveThatIsSilentAfterItWasToldIsAskedAgain(t *testing.T) {
	for name, lost := range map[string]error{"it answered": nil, "the answer is lost": errors.New("timed out")} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, driver.EraseCrypto)
			d.told = func() error {
				d.sim.Inject("disk0", drivertest.Unreadable)
				return lost
			}
			silent := 0
			j := d.life(d.job(), func(s engine.Snapshot) bool {
				if strings.Contains(s.Waiting, "cannot be read now") || strings.Contains(s.Waiting, "it is not known whether") || strings.Contains(s.Waiting, "NOT proven") {
					silent++
					d.sim.Cure("disk0", drivertest.Unreadable)
				}
				return false
			})
			assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
			assert.Positive(t, silent)
			assert.Equal(t, 1, d.begun())
		})
	}
}

// A drive that was told and says that it has not begun is not told again by the same job.
func TestDriveThatDidNotBeginIsNotToldAgain(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	d.sim.Inject("disk0", drivertest.FailWrite)
	told := 0
	d.told = func() error { told++; return errors.New("the drive answered 0x6 (internal error)") }
	j := d.erase()
	d.fails(j, "nothing was erased: the drive answered 0x6 (internal error)")
	assert.Equal(t, 1, told)
	assert.Contains(t, d.data(), secret)
}

// What was kept may be lost to another version of the daemon.
func TestErasureWithoutWhatWasKeptProvesNothing(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	ret, underway := d.tasks.Run(t.Context(), step.Step{Step: plan.Step{Kind: plan.Erase, Device: "disk0", Arguments: d.arguments}, Lasting: true},
		journal.RequestedStep{}, update(d.ids[0], ""))
	assert.Nil(t, underway)
	d.bench.fails(ret, "the drive is NOT proven erased: it was told to erase itself, and what was kept of that is lost")
	assert.Zero(t, d.begun())
}

// A drive that never ends is not given up: the job says so, and goes on when the drive does, also in another life.
func TestErasureThatDoesNotEndIsReported(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	d.deadline = time.Minute // shortened below: the record has it
	j := d.job()
	require.Equal(t, time.Minute, j.Record.Steps[2].Deadline)
	j.Record.Steps[2].Deadline = 20 * time.Millisecond
	d.sim.Inject("disk0", drivertest.HangErase)
	j = d.life(j, func(s engine.Snapshot) bool { return s.Overdue != "" })
	assert.Empty(t, j.Record.Outcome)
	assert.Contains(t, d.overdue[0], "no progress for 20ms and is not killed")
	d.sim.Cure("disk0", drivertest.HangErase)
	j = d.life(j, never)
	assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
	assert.Equal(t, 1, d.begun())
}

// The daemon may be restarted as often as it takes while the drive erases itself, also with a new version of the driver.
func TestErasureOutlivesTheDaemonAgainAndAgain(t *testing.T) {
	d := newDrive(t, driver.EraseCrypto)
	d.sim.Inject("disk0", drivertest.HangErase)
	j := d.job()
	for n := range 2 * step.MaxInterruptions {
		j = d.life(j, func(s engine.Snapshot) bool { return s.Percent != nil })
		require.Empty(t, j.Record.Outcome, "%+v", j.Record.Failure)
		if n == 3 {
			d.sim.SetVersion("2")
		}
	}
	d.sim.Cure("disk0", drivertest.HangErase)
	j = d.life(j, never)
	assert.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
	assert.Equal(t, int32(1), j.Record.Restarts, "once the drive is erased")
	assert.Equal(t, 1, d.begun())
}

// R003-43, R003-48: wherever the process or the power ends, the drive is erased once, and the job ends as if nothing had been.
func TestEraseKilledAnywhereBeginsOnce(t *testing.T) {
	for name, before := range map[string]func(*drive){
		"a new drive": func(*drive) {},
		"a drive that was erased before": func(d *drive) {
			d.other()
			for range 5 {
				_, err := d.sim.Erasure(d.Context(), d.ids[0])
				require.NoError(d, err)
			}
			d.sim.Fill("disk0", 0, bytes.Repeat([]byte(secret), diskSize/len(secret)))
		},
		"a drive whose answer is lost": func(d *drive) { d.sim.Inject("disk0", drivertest.LostErase) },
		"a drive without a log":        func(d *drive) { d.sim.NoLog("disk0") },
		"one without a log that is done at once": func(d *drive) {
			d.sim.NoLog("disk0")
			d.sim.ErasesAtOnce("disk0")
		},
		"one without a log whose answer is lost": func(d *drive) {
			d.sim.NoLog("disk0")
			d.sim.Inject("disk0", drivertest.LostErase)
		},
	} {
		t.Run(name, func(t *testing.T) {
			survived := false
			for at := 1; !survived; at++ {
				require.Less(t, at, 500)
				d := newDrive(t, driver.EraseCrypto)
				before(d)
				already := d.begun()
				d.points, d.dies = 0, at
				if at%2 == 0 {
					d.power = func() { d.boots++; d.sim.PowerCycle() }
				}
				j := d.erase()
				survived = d.points < at
				require.Equal(t, step.Complete, j.Record.Outcome, "killed at %d: %+v", at, j.Record.Failure)
				require.Equal(t, 1, d.begun()-already, "killed at %d", at)
				require.NotContains(t, d.data(), secret, "killed at %d", at)
				require.Contains(t, j.Record.Steps[2].Message, "none is as it was")
			}
		})
	}
}

// A drive that was erased and not written since cannot tell whether it has begun again: nothing is begun twice, and nothing is claimed.
func TestDriveThatCannotTellIsNotErasedTwice(t *testing.T) {
	claimed, unsure := 0, 0
	for at := 1; ; at++ {
		d := newDrive(t, driver.EraseCrypto)
		d.other()
		for range 5 {
			_, err := d.sim.Erasure(t.Context(), d.ids[0])
			require.NoError(t, err)
		}
		d.sim.ErasesAtOnce("disk0")
		d.points, d.dies = 0, at
		j := d.erase()
		require.LessOrEqual(t, d.begun(), 2, "killed at %d", at)
		if j.Record.Outcome == step.Complete {
			claimed++
			require.Equal(t, 2, d.begun(), "killed at %d", at)
		} else {
			unsure++
			require.Contains(t, j.Record.Failure.Message, "whether it has begun is not known", "killed at %d", at)
		}
		if d.points < at {
			break
		}
	}
	assert.Positive(t, claimed)
	assert.Positive(t, unsure)
}

// R003-43: of a drive that keeps no log the certificate says what was seen of it, and not that a log says it.
func TestErasureWithoutALogIsProven(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*drive)
		says   string
	}{
		"it is seen in progress": {func(*drive) {}, "no log; seen in progress (log: in progress), then no more (it neither erases itself nor failed to)"},
		"it is done at once": {func(d *drive) { d.sim.ErasesAtOnce("disk0") },
			"no log; it took the command, and was never seen in progress (it neither erases itself nor failed to)"},
		"its answer is lost, and it is done at once": {func(d *drive) {
			d.sim.ErasesAtOnce("disk0")
			d.told = func() error { return errors.New("no answer") }
		}, "no log; whether it took the command is not known, and it was never seen in progress (it neither erases itself nor failed to)"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, driver.EraseCrypto)
			d.sim.NoLog("disk0")
			c.change(d)
			j := d.erase()
			require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
			assert.Equal(t, 1, d.begun())
			assert.Equal(t, c.says, erase.ReadProof(j.Record.Steps[2].Data).Log)
			assert.Contains(t, j.Record.Steps[2].Message, c.says+"; 64 samples of 4096 bytes, seed 0x2a: 64 held data before, none is as it was")
			assert.NotContains(t, d.data(), secret)
		})
	}
}

// R003-43: what a drive without a log does not show is not certified: neither one that takes the command and does nothing, nor one that was empty and
// never seen in progress. Neither is told again.
func TestErasureWithoutALogThatNothingShows(t *testing.T) {
	for says, change := range map[string]func(*drive){
		"NOT proven erased, and it does not erase itself now (it neither erases itself nor failed to): nvme0n1 still has at byte 0 what was there before": func(d *drive) {
			d.sim.Inject("disk0", drivertest.LieErase)
		},
		"it keeps no log, was never seen while it erased itself, and none of the samples held data before": func(d *drive) {
			d.sim.Fill("disk0", 0, make([]byte, diskSize))
			d.sim.ErasesAtOnce("disk0")
		},
		"its erasure by a simulated tool, crypto erase failed (log: failed), and it gives no data; end that state": func(d *drive) {
			d.sim.Inject("disk0", drivertest.FailErase)
		},
	} {
		t.Run(says, func(t *testing.T) {
			d := newDrive(t, driver.EraseCrypto)
			d.sim.NoLog("disk0")
			change(d)
			j := d.erase()
			d.fails(j, says)
			assert.Equal(t, 1, d.begun())
			assert.Nil(t, erase.ReadProof(j.Record.Steps[2].Data))
		})
	}
}

// A drive without a log that was empty and is killed at once is not told twice, wherever that happens, and certified only where it was seen.
func TestEmptyDriveWithoutALogKilled(t *testing.T) {
	for name, atOnce := range map[string]bool{"it takes a while": false, "it is done at once": true} {
		t.Run(name, func(t *testing.T) {
			for at := 1; ; at++ {
				require.Less(t, at, 500)
				d := newDrive(t, driver.EraseCrypto)
				d.sim.NoLog("disk0")
				d.sim.Fill("disk0", 0, make([]byte, diskSize))
				if atOnce {
					d.sim.ErasesAtOnce("disk0")
				}
				d.dies = at
				j := d.erase()
				require.LessOrEqual(t, d.begun(), 1, "killed at %d", at)
				if done := j.Record.Outcome == step.Complete; done {
					require.Contains(t, j.Record.Steps[2].Message, "no log; seen in progress", "killed at %d", at)
				} else {
					require.Contains(t, j.Record.Failure.Message, "nothing shows that it did", "killed at %d", at)
				}
				if d.points < at {
					return
				}
			}
		})
	}
}

// Samples that were empty before prove nothing, and are not said to.
func TestEmptyDriveIsErasedOnItsWord(t *testing.T) {
	d := newDrive(t, driver.EraseBlock)
	d.sim.Fill("disk0", 0, make([]byte, diskSize))
	j := d.erase()
	require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
	assert.Contains(t, j.Record.Steps[2].Message, "none held data before, so that the drive's log alone says it")
}

// Two drives, and random data in place of text, leave samples that are neither blank nor equal.
func TestSamplesOfRandomDataAreCompared(t *testing.T) {
	d := newDrive(t, driver.EraseBlock)
	random := rand.NewChaCha8([32]byte{1})
	data := make([]byte, diskSize)
	_, _ = random.Read(data)
	d.sim.Fill("disk0", 0, data)
	j := d.erase()
	require.Equal(t, step.Complete, j.Record.Outcome, "%+v", j.Record.Failure)
	assert.Contains(t, j.Record.Steps[2].Message, "64 held data before")
}
