package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Machine is a host whose hardware outlives the engine. Its methods are for one goroutine, but for those of Window.
type Machine struct {
	T     *testing.T
	Dir   string
	Sim   *drivertest.Simulated
	IDs   []inventory.Identity
	Image map[inventory.Digest]driver.Image
	// Store hands out the images; nil for those of Image.
	Store engine.Images

	// Boot counts the boots, and booted is when this one began; RebootWanted says that a reboot was requested.
	Boot           int
	booted         time.Time
	RebootWanted   bool
	IgnoresReboots bool
	// NoInit is why no reboot could be requested, and RefusesReboot why a request is refused now; nil for no reason. RebootsAsked counts requests.
	NoInit        error
	RefusesReboot func() error
	RebootsAsked  int
	// Kexecs counts the next boots that start a kernel without a reset, and Kexec says that the last one was such.
	Kexecs int
	Kexec  bool
	OnBoot func()
	// LinkDown takes the links of all adapters down after the first boot.
	LinkDown  bool
	NodeReady bool
	// Uplink is the unique id of the only adapter that leads to the gateway and the API server; empty for a network that has
	// nothing to do with the adapters.
	Uplink string
	// APIAway says why the API server cannot be asked, whatever the links say; nil for no reason.
	APIAway error
	// Refused is the error with which the API server answers; nil for none.
	Refused error
	// Mute says that no packet leaves the machine, though its links are up.
	Mute bool
	// Asked counts the questions to the API server about the Node, Looked those to the hardware.
	Asked, Looked int
	// OnLook is called before each answer to either.
	OnLook func()
	// BootTime is what the host says about its boot.
	BootTime step.BootTime
	// Kernel is the release of its kernel.
	Kernel string
	Window *Window
	// Undrained gives the engine a maintenance that takes nothing away, in place of Window.
	Undrained bool
	Archive   *archive.Store
	FetchErr  error
	// FetchErrUntil is when FetchErr passes; never where it is zero.
	FetchErrUntil time.Time
	// HangsRead makes every read of an image after the first boot go on without its caller, until the engine looks for it;
	// reading says that one does.
	HangsRead, reading bool
	Fetches            int

	// Points counts the failpoints; the process dies at the one whose number is CrashAt.
	Points, CrashAt int
	// Reads counts what is read of the host; the process ends at the one whose number is EndAt.
	Reads, EndAt int
	// NoWrite is why no tool that writes is started; nil where one is.
	NoWrite error
	// Limits are those of engine.Config.
	Limits step.Limits
	// Volatile, Free and MaxInMemory are those of engine.Config.
	Volatile    string
	Free        func(dir string) (int64, error)
	MaxInMemory int64
	// AtWrite is called when a driver is about to write, with the image it was given.
	AtWrite func(driver.Image)
	// BeforeCommit is called between the two commands of a write, which then waits until its context ends.
	BeforeCommit func()
	// NoReset answers for a device that cannot be reset now, in place of the reset.
	NoReset error
	// NotNow answers for a device whose image cannot be read now.
	NotNow func() error
	// OnParameters is called when all settings of a device are read; a read whose context ended fails.
	OnParameters func()
	// OnArchive is called when an image was read of a device.
	OnArchive func()
	// SlowRead is called by a read of an image, which then waits until its context ends.
	SlowRead func()
	// Wait is engine.Config.Wait; nil for the clock of this process.
	Wait func(ctx context.Context, d time.Duration, wake <-chan struct{})
	// Guard is engine.Config.Guard.
	Guard engine.Guard
	// Tasks is engine.Config.Tasks; nil for a daemon that knows no step but those of updates.
	Tasks engine.Tasks
	// Uses and Arrays are those of engine.Config and health.Checker; nil for none.
	Uses   engine.Uses
	Arrays health.Arrays
	// OnSnapshot is called with each change of the job.
	OnSnapshot func(engine.Snapshot)
	// LoseEnds: the end of a write is not seen, as when its worker was killed.
	LoseEnds bool
	// Reader is the driver that reads the devices; empty for the one that writes them.
	Reader string
	// Second says that another driver than Sim is chosen for the devices from now on. It works as Sim does.
	Second bool
	// Unfollowed: nothing holds the lock of a write, which a plugin carries out, and which it alone knows of.
	Unfollowed bool
	// Recorded is what is known of the last write under a lock; nil where nothing records writes.
	Recorded func(lock string) *command.Writing
	// Protection answers whether the host protects a write that begins now; nil where it does.
	Protection func() error
	Snapshots  []engine.Snapshot
	// Written are the images that were written to each device, in order.
	Written map[string][]inventory.Digest
	// Stop ends the process.
	Stop   context.CancelFunc
	Engine *engine.Engine
}

var errPowerCut = errors.New("power cut")

// New makes a machine without devices.
func New(t *testing.T) *Machine {
	dir := t.TempDir()
	return &Machine{
		T: t, Dir: dir, Sim: drivertest.NewSimulated("sim"), Image: map[inventory.Digest]driver.Image{}, Boot: 1,
		booted: time.Now(), Written: map[string][]inventory.Digest{},
		NodeReady: true, Window: &Window{}, Archive: archive.New(filepath.Join(dir, "archive"), durable.OS{}),
	}
}

// away is why the API server cannot be asked; nil when it can be.
func (m *Machine) away() error {
	if m.Uplink != "" && (m.Mute || m.down(m.Uplink)) {
		return errors.New("dial tcp 10.0.0.1:6443: no route to host")
	}
	return m.APIAway
}

// down reports whether the link of an adapter is down.
func (m *Machine) down(uniqueID string) bool {
	return m.LinkDown && m.Boot > 1 || m.Sim.LinkDown(uniqueID)
}

// Neighbours implements health.Network.
func (m *Machine) Neighbours(context.Context) ([]health.Neighbour, error) {
	if m.Uplink == "" {
		return nil, errors.New("this machine cannot tell")
	}
	return []health.Neighbour{{Address: "10.0.0.254", Ports: []string{"eth-" + m.Uplink}, Answers: !m.Mute && !m.down(m.Uplink)}}, nil
}

// Add plugs a device in that runs version 1.0.
func (m *Machine) Add(class inventory.Class, uid string, activation inventory.Activation) inventory.Identity {
	return m.AddWith(class, uid, inventory.Firmware{Activation: activation})
}

// AddWith plugs a device in that runs version 1.0.
func (m *Machine) AddWith(class inventory.Class, uid string, fw inventory.Firmware) inventory.Identity {
	id := inventory.Identity{Class: class, UniqueID: uid, BoardID: "BOARD_" + uid, Model: "model"}
	fw.Running, fw.Format = "1.0", inventory.FormatDotted
	m.Sim.Add(id, fw)
	m.IDs = append(m.IDs, id)
	return id
}

// Job makes a job that brings the devices to version 2.0.
func (m *Machine) Job(name string, ids ...inventory.Identity) journal.Job {
	j := journal.Job{Name: name, UID: "uid-" + name, Accepted: time.Now(), Deadline: time.Now().Add(time.Hour)}
	for _, id := range ids {
		img := drivertest.NewImage(m.T, id.BoardID, "2.0")
		m.Image[img.Digest] = img
		j.Updates = append(j.Updates, journal.Update{
			Class:  id.Class,
			Device: "node-" + id.UniqueID, UniqueID: id.UniqueID, FromVersion: "1.0", Version: "2.0",
			Digest: img.Digest.String(),
			Origin: []journal.Origin{{Kind: "FirmwareTemplate", Name: "t", Rule: "r"}},
		})
	}
	j.Record = engine.NewRecord(plan.Catalog{}, j.Updates)
	return j
}

// Bad makes the image of one update one that takes the links of its card down as long as it runs.
func (m *Machine) Bad(j journal.Job, uid string) journal.Job {
	for i, u := range j.Updates {
		if u.UniqueID == uid {
			img := drivertest.NewBadImage(m.T, "BOARD_"+uid, "2.0", drivertest.DefectLinkDown)
			m.Image[img.Digest] = img
			j.Updates[i].Digest = img.Digest.String()
		}
	}
	return j
}

// ReadBackNIC plugs an adapter in whose image can be read and written back.
func (m *Machine) ReadBackNIC(activation inventory.Activation) inventory.Identity {
	return m.AddWith(inventory.NIC, "nic0", inventory.Firmware{Activation: activation, Rollback: inventory.RollbackReadBack})
}

func (m *Machine) failpoint() {
	m.Points++
	if m.Points == m.CrashAt {
		panic(errPowerCut)
	}
}

// Run submits the job, if one is given, and lives through crashes and reboots until the journal has nothing to run.
func (m *Machine) Run(submit ...journal.Job) journal.View {
	m.T.Helper()
	for range 100 {
		view, over := m.Live(submit...)
		if over {
			return view
		}
		submit = nil
	}
	m.T.Fatal("the job does not end")
	return journal.View{}
}

// Live is one life of the process: it ends with the work, with a crash or with a reboot.
func (m *Machine) Live(submit ...journal.Job) (view journal.View, over bool) {
	j, err := journal.Open(m.Dir)
	require.NoError(m.T, err)
	defer func() { require.NoError(m.T, j.Close()) }()
	ctx, cancel := context.WithCancel(m.T.Context())
	defer cancel()
	m.Stop = cancel
	m.Engine = m.NewEngine(j)
	m.crash(func() {
		for _, s := range submit {
			require.NoError(m.T, m.Engine.Submit(s))
		}
		view, err := j.View()
		require.NoError(m.T, err)
		if active := view.Active(); active != nil && active.Record.Outcome == "" {
			_, _ = m.Engine.Execute(ctx, *active)
		}
	})
	if m.RebootWanted {
		m.RebootWanted = false
		<-time.After(5 * time.Minute) // under the synctest of the caller
		m.Boot++
		m.booted = time.Now()
		if m.Kexec = m.Kexecs > 0; m.Kexec {
			m.Kexecs--
		} else {
			m.Sim.Reboot()
		}
		if m.OnBoot != nil {
			m.OnBoot()
		}
	}
	view, err = j.View()
	require.NoError(m.T, err)
	active := view.Active()
	return view, active == nil || active.Record.Outcome != ""
}

func (m *Machine) crash(f func()) {
	defer func() {
		if r := recover(); r != nil && r != errPowerCut { //nolint:errorlint // identity
			panic(r)
		}
	}()
	f()
}

func (m *Machine) maintenance() maintenance.Window {
	if m.Undrained {
		return &maintenance.None{}
	}
	return m.Window
}

// NewEngine makes an engine that works on the machine, as a process that just began.
func (m *Machine) NewEngine(j *journal.Journal) *engine.Engine {
	m.Window.Away = m.away
	return engine.New(engine.Config{
		Journal: j, Archive: m.Archive, Host: m, Drivers: driver.Set{failing{m.Sim, m}, second{failing{m.Sim, m}}}, Images: m, Maintenance: m.maintenance(), Writes: m, Rebooter: m,
		Health:    health.Checker{Scanner: m, Node: m, Network: m, Arrays: m.Arrays},
		Uses:      m.Uses,
		Tasks:     m.Tasks,
		BootTime:  func(context.Context) (step.BootTime, error) { return m.BootTime, nil },
		BootID:    func() (string, error) { return fmt.Sprintf("boot-%d", m.Boot), nil },
		Kernel:    func() (string, error) { return m.Kernel, nil },
		Kexec:     func() (bool, error) { return m.Kexec, nil },
		SinceBoot: func() (time.Duration, error) { return time.Since(m.booted), nil },
		Grace:     time.Minute, Limits: m.Limits, Wait: m.Wait, Guard: m.Guard, Volatile: m.Volatile, Free: m.Free, MaxInMemory: m.MaxInMemory,
		Notify: func(s engine.Snapshot) {
			m.Snapshots = append(m.Snapshots, s)
			if m.OnSnapshot != nil {
				m.OnSnapshot(s)
			}
			if s.Transition {
				m.failpoint()
			}
		},
	})
}

// read is something that is read of the host, which the end of the context cuts short.
func (m *Machine) read(ctx context.Context) error {
	m.Reads++
	if m.Reads == m.EndAt {
		m.Stop()
	}
	return ctx.Err()
}

// Find implements engine.Host.
func (m *Machine) Find(ctx context.Context, class inventory.Class, uid string) (inventory.Device, bool, error) {
	if !slices.Contains([]inventory.Class{inventory.BIOS, inventory.NIC, inventory.Disk}, class) {
		return inventory.Device{}, false, fmt.Errorf("list %s devices: unknown class", class)
	}
	devices, err := m.Scan(ctx)
	for _, d := range devices {
		if d.UniqueID == uid && d.Class == class {
			return d, true, err
		}
	}
	return inventory.Device{}, false, err
}

// Scan implements engine.Host and health.Scanner.
func (m *Machine) Scan(ctx context.Context) ([]inventory.Device, error) {
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	if m.Looked++; m.OnLook != nil {
		m.OnLook()
	}
	var out []inventory.Device
	for _, id := range m.IDs {
		d := inventory.Device{Identity: id, Driver: cmp.Or(m.Reader, "sim")}
		if m.Second {
			d.Driver = secondName
		}
		full, fw, err := m.Sim.Inspect(ctx, id)
		if m.Unfollowed && m.Sim.Busy(id.UniqueID) {
			err = fmt.Errorf("plugin acme: %w", command.ErrStillRunning)
		}
		if err != nil {
			d.Err = err
		} else {
			d.Identity, d.Firmware = full, &fw
		}
		if id.Class == inventory.NIC {
			state := inventory.LinkUp
			if m.down(id.UniqueID) {
				state = inventory.LinkDown
			}
			d.Ports = []inventory.Port{{MAC: "b8:ce:f6:00:00:" + id.UniqueID, State: state, NetDevice: "eth-" + id.UniqueID}}
		}
		out = append(out, d)
	}
	return out, nil
}

// Fetch implements engine.Images.
func (m *Machine) Fetch(ctx context.Context, d inventory.Digest) (string, int64, error) {
	m.Fetches++
	if err := m.read(ctx); err != nil {
		return "", 0, err
	}
	if m.Store != nil {
		return m.Store.Fetch(ctx, d)
	}
	img, ok := m.Image[d]
	failing := m.FetchErr != nil && (m.FetchErrUntil.IsZero() || time.Now().Before(m.FetchErrUntil))
	switch {
	case failing:
		return "", 0, m.FetchErr
	case !ok:
		return "", 0, errors.New("the image server does not answer")
	}
	return img.Path, img.Size, nil
}

// WriteRunning implements engine.Writes.
func (m *Machine) WriteRunning(lock string) (bool, error) {
	busy := m.reading || m.Sim.Busy(lock) && !m.Unfollowed
	m.reading = false
	return busy, nil
}

// Writing implements engine.Writers, for tests that say what is recorded of writes.
func (m *Machine) Writing(lock string) (*command.Writing, error) {
	if m.Recorded == nil {
		return nil, nil
	}
	return m.Recorded(lock), nil
}

// Protects implements engine.Protector.
func (m *Machine) Protects(context.Context) error {
	if m.Protection == nil {
		return nil
	}
	return m.Protection()
}

// CanReboot implements engine.Rebooter.
func (m *Machine) CanReboot(context.Context) error { return m.NoInit }

// Reboot implements engine.Rebooter. The reboot happens once the process has ended.
func (m *Machine) Reboot(context.Context) error {
	m.RebootsAsked++
	if m.RefusesReboot != nil {
		if err := m.RefusesReboot(); err != nil {
			return err
		}
	}
	m.failpoint()
	if !m.IgnoresReboots {
		m.RebootWanted = true
		m.Stop()
	}
	m.failpoint()
	return nil
}

// Ready implements health.NodeReadiness.
func (m *Machine) Ready(context.Context) (bool, string, error) {
	m.Asked++
	if err := m.away(); err != nil {
		return false, "", err
	}
	if m.Refused != nil {
		return false, "", m.Refused
	}
	return m.NodeReady, "kubelet stopped", nil
}

// failing is the simulated driver with failpoints around what changes a device.
type failing struct {
	*drivertest.Simulated
	m *Machine
}

func (f failing) Support(id inventory.Identity) driver.Support {
	if f.m.Second {
		return driver.SupportNone
	}
	return f.Simulated.Support(id)
}

const secondName = "second"

// second is the driver that Machine.Second switches to.
type second struct{ failing }

func (second) Name() string { return secondName }

func (s second) Support(id inventory.Identity) driver.Support {
	if !s.m.Second {
		return driver.SupportNone
	}
	return s.Simulated.Support(id)
}

func (f failing) Write(ctx context.Context, id inventory.Identity, img driver.Image, p driver.Progress) (inventory.Activation, error) {
	f.m.failpoint()
	defer f.m.failpoint()
	if f.m.AtWrite != nil {
		f.m.AtWrite(img)
	}
	if f.m.BeforeCommit != nil {
		f.m.BeforeCommit()
		<-ctx.Done()
		return 0, &command.Error{Argv: []string{"commit"}, ExitCode: -1, Err: ctx.Err()}
	}
	if f.m.reading {
		return 0, command.ErrBusy
	}
	if f.m.NoWrite != nil {
		return 0, &command.Error{Argv: []string{"burn"}, ExitCode: -1, Err: f.m.NoWrite}
	}
	if command.ProtectionRequired(ctx) {
		if err := f.m.Protects(ctx); err != nil {
			return 0, &command.Error{Argv: []string{"burn"}, ExitCode: -1, Err: fmt.Errorf("%w: %w", command.ErrUnprotected, err)}
		}
	}
	f.m.Written[id.UniqueID] = append(f.m.Written[id.UniqueID], img.Digest)
	needs, err := f.Simulated.Write(ctx, id, img, p)
	if err == nil && f.m.LoseEnds {
		err = &command.Error{Argv: []string{"burn"}, ExitCode: -1, Err: command.ErrLost}
	}
	return needs, err
}

func (f failing) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	if len(names) == 0 && f.m.OnParameters != nil {
		f.m.OnParameters()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f.Simulated.Parameters(ctx, id, names...)
}

func (f failing) Archive(ctx context.Context, id inventory.Identity, path string) error {
	if f.m.NotNow != nil {
		return f.m.NotNow()
	}
	if f.m.SlowRead != nil {
		f.m.SlowRead()
		<-ctx.Done()
		return ctx.Err()
	}
	f.m.failpoint()
	defer f.m.failpoint()
	if f.m.reading = f.m.HangsRead && f.m.Boot > 1; f.m.reading {
		return command.ErrStillRunning
	}
	err := f.Simulated.Archive(ctx, id, path)
	if err == nil && f.m.OnArchive != nil {
		f.m.OnArchive()
	}
	return err
}

func (f failing) Revert(ctx context.Context, id inventory.Identity, v inventory.Version) (inventory.Activation, error) {
	f.m.failpoint()
	defer f.m.failpoint()
	return f.Simulated.Revert(ctx, id, v)
}

func (f failing) Activate(ctx context.Context, id inventory.Identity, k inventory.Activation) (inventory.Activation, error) {
	if f.m.NoReset != nil {
		return 0, f.m.NoReset
	}
	f.m.failpoint()
	defer f.m.failpoint()
	return f.Simulated.Activate(ctx, id, k)
}
