package job_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// machine is a host whose hardware outlives the engine. It dies at the failpoint whose number is crashAt.
type machine struct {
	t     *testing.T
	dir   string
	sim   *drivertest.Simulated
	ids   []inventory.Identity
	image map[inventory.Digest]driver.Image

	boot           int
	rebootWanted   bool
	ignoresReboots bool
	onBoot         func()
	linkDown       bool
	nodeReady      bool
	window         *window
	archive        *archive.Store
	fetchErr       error
	// hangsRead makes every read of an image after the first boot go on without its caller, until somebody looks for it;
	// reading says that one does.
	hangsRead, reading bool
	fetches            int

	points, crashAt int
	// reads counts what is read of the host; the process is told to end at the one whose number is endAt.
	reads, endAt int
	// beforeCommit is called between the two commands of a write that waits there until its context ends.
	beforeCommit func()
	// notNow answers for a device whose image cannot be read now.
	notNow func() error
	// slowRead is called by a read of an image, which then waits until its context ends.
	slowRead func()
	// onSnapshot is called with each change of the job.
	onSnapshot func(job.Snapshot)
	// loseEnds: nobody sees the end of a write, as when its worker was killed.
	loseEnds bool
	// reader is the driver that reads the devices; empty for the one that writes them.
	reader string
	// unfollowed: nothing holds the lock of a write, which a plugin carries out, and which it alone knows of.
	unfollowed bool
	snapshots  []job.Snapshot
	stop       context.CancelFunc
	engine     *job.Engine
}

var errPowerCut = errors.New("power cut")

func newMachine(t *testing.T) *machine {
	dir := t.TempDir()
	return &machine{
		t: t, dir: dir, sim: drivertest.NewSimulated("sim"), image: map[inventory.Digest]driver.Image{}, boot: 1,
		nodeReady: true, window: &window{}, archive: archive.New(filepath.Join(dir, "archive"), durable.OS{}),
	}
}

// add plugs a device in that runs version 1.0.
func (m *machine) add(class inventory.Class, uid string, activation inventory.Activation) inventory.Identity {
	return m.addWith(class, uid, inventory.Firmware{Activation: activation})
}

// addWith plugs a device in that runs version 1.0.
func (m *machine) addWith(class inventory.Class, uid string, fw inventory.Firmware) inventory.Identity {
	id := inventory.Identity{Class: class, UniqueID: uid, BoardID: "BOARD_" + uid, Model: "model"}
	fw.Running, fw.Format = "1.0", inventory.FormatDotted
	m.sim.Add(id, fw)
	m.ids = append(m.ids, id)
	return id
}

// job makes a job that brings the devices to version 2.0.
func (m *machine) job(name string, ids ...inventory.Identity) journal.Job {
	j := journal.Job{Name: name, UID: "uid-" + name, Accepted: time.Now(), Deadline: time.Now().Add(time.Hour)}
	for _, id := range ids {
		img := drivertest.NewImage(m.t, id.BoardID, "2.0")
		m.image[img.Digest] = img
		j.Updates = append(j.Updates, journal.Update{Class: id.Class, DeviceUpdate: v1alpha1.DeviceUpdate{
			Device: "node-" + id.UniqueID, UniqueID: id.UniqueID, FromVersion: "1.0", Version: "2.0",
			Digest: v1alpha1.Digest(img.Digest.String()), Downgrade: v1alpha1.DowngradeForbid,
			Origin: v1alpha1.Origin{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"},
		}})
	}
	j.Record = job.NewRecord(plan.Catalog{}, j.Updates)
	return j
}

func (m *machine) failpoint() {
	m.points++
	if m.points == m.crashAt {
		panic(errPowerCut)
	}
}

// run submits the job, if one is given, and lives through crashes and reboots until the journal has nothing to run.
func (m *machine) run(submit ...journal.Job) journal.View {
	m.t.Helper()
	for range 50 {
		view, over := m.live(submit...)
		if over {
			return view
		}
		submit = nil
	}
	m.t.Fatal("the job does not end")
	return journal.View{}
}

// live is one life of the process: it ends with the work, with a crash or with a reboot.
func (m *machine) live(submit ...journal.Job) (view journal.View, over bool) {
	j, err := journal.Open(m.dir)
	require.NoError(m.t, err)
	defer func() { require.NoError(m.t, j.Close()) }()
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	m.stop = cancel
	m.engine = m.newEngine(j)
	m.crash(func() {
		for _, s := range submit {
			require.NoError(m.t, m.engine.Submit(s))
		}
		view, err := j.View()
		require.NoError(m.t, err)
		if active := view.Active(); active != nil && active.Record.Outcome == "" {
			_, _ = m.engine.Execute(ctx, *active)
		}
	})
	if m.rebootWanted {
		m.rebootWanted = false
		time.Sleep(5 * time.Minute) // sleeps: under the synctest of the caller
		m.boot++
		m.sim.Reboot()
		if m.onBoot != nil {
			m.onBoot()
		}
	}
	view, err = j.View()
	require.NoError(m.t, err)
	active := view.Active()
	return view, active == nil || active.Record.Outcome != ""
}

func (m *machine) crash(f func()) {
	defer func() {
		if r := recover(); r != nil && r != errPowerCut { //nolint:errorlint // identity
			panic(r)
		}
	}()
	f()
}

func (m *machine) newEngine(j *journal.Journal) *job.Engine {
	return job.New(job.Config{
		Journal: j, Archive: m.archive, Host: m, Drivers: driver.Set{failing{m.sim, m}}, Images: m, Maintenance: m.window, Writes: m, Rebooter: m,
		Health: health.Checker{Scanner: m, Node: m},
		BootID: func() (string, error) { return fmt.Sprintf("boot-%d", m.boot), nil },
		Grace:  time.Minute,
		Notify: func(s job.Snapshot) {
			m.snapshots = append(m.snapshots, s)
			if m.onSnapshot != nil {
				m.onSnapshot(s)
			}
			if s.Transition {
				m.failpoint()
			}
		},
	})
}

// read is something that is read of the host, which the end of the context cuts short.
func (m *machine) read(ctx context.Context) error {
	m.reads++
	if m.reads == m.endAt {
		m.stop()
	}
	return ctx.Err()
}

func (m *machine) Find(ctx context.Context, class inventory.Class, uid string) (inventory.Device, bool, error) {
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

func (m *machine) Scan(ctx context.Context) ([]inventory.Device, error) {
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	var out []inventory.Device
	for _, id := range m.ids {
		d := inventory.Device{Identity: id, Driver: cmp.Or(m.reader, "sim")}
		full, fw, err := m.sim.Inspect(ctx, id)
		if m.unfollowed && m.sim.Busy(id.UniqueID) {
			err = fmt.Errorf("plugin acme: %w", command.ErrStillRunning)
		}
		if err != nil {
			d.Err = err
		} else {
			d.Identity, d.Firmware = full, &fw
		}
		if id.Class == inventory.NIC {
			state := inventory.LinkUp
			if m.linkDown && m.boot > 1 || m.sim.LinkDown(id.UniqueID) {
				state = inventory.LinkDown
			}
			d.Ports = []inventory.Port{{MAC: "b8:ce:f6:00:00:" + id.UniqueID, State: state}}
		}
		out = append(out, d)
	}
	return out, nil
}

func (m *machine) Fetch(ctx context.Context, d inventory.Digest) (string, int64, error) {
	m.fetches++
	if err := m.read(ctx); err != nil {
		return "", 0, err
	}
	img, ok := m.image[d]
	if m.fetchErr != nil || !ok {
		return "", 0, errors.Join(m.fetchErr, errors.New("the image server does not answer"))
	}
	return img.Path, img.Size, nil
}

func (m *machine) WriteRunning(lock string) (bool, error) {
	busy := m.reading || m.sim.Busy(lock) && !m.unfollowed
	m.reading = false
	return busy, nil
}

func (m *machine) Reboot(context.Context) error {
	m.failpoint()
	if !m.ignoresReboots {
		m.rebootWanted = true
		m.stop()
	}
	m.failpoint()
	return nil
}

func (m *machine) Ready(context.Context) (bool, string, error) {
	return m.nodeReady, "kubelet stopped", nil
}

// failing is the simulated driver with failpoints around what changes a device.
type failing struct {
	*drivertest.Simulated
	m *machine
}

func (f failing) Write(ctx context.Context, id inventory.Identity, img driver.Image, p driver.Progress) (inventory.Activation, error) {
	f.m.failpoint()
	defer f.m.failpoint()
	if f.m.beforeCommit != nil {
		f.m.beforeCommit()
		<-ctx.Done()
		return 0, &command.Error{Argv: []string{"commit"}, ExitCode: -1, Err: ctx.Err()}
	}
	if f.m.reading {
		return 0, command.ErrBusy
	}
	needs, err := f.Simulated.Write(ctx, id, img, p)
	if err == nil && f.m.loseEnds {
		err = &command.Error{Argv: []string{"burn"}, ExitCode: -1, Err: command.ErrLost}
	}
	return needs, err
}

func (f failing) Archive(ctx context.Context, id inventory.Identity, path string) error {
	if f.m.notNow != nil {
		return f.m.notNow()
	}
	if f.m.slowRead != nil {
		f.m.slowRead()
		<-ctx.Done()
		return ctx.Err()
	}
	f.m.failpoint()
	defer f.m.failpoint()
	if f.m.reading = f.m.hangsRead && f.m.boot > 1; f.m.reading {
		return command.ErrStillRunning
	}
	return f.Simulated.Archive(ctx, id, path)
}

func (f failing) Revert(ctx context.Context, id inventory.Identity, v inventory.Version) (inventory.Activation, error) {
	f.m.failpoint()
	defer f.m.failpoint()
	return f.Simulated.Revert(ctx, id, v)
}

func (f failing) Activate(ctx context.Context, id inventory.Identity, k inventory.Activation) (inventory.Activation, error) {
	f.m.failpoint()
	defer f.m.failpoint()
	return f.Simulated.Activate(ctx, id, k)
}

// window is a maintenance that gets ready at the second look, and counts.
type window struct {
	mu           sync.Mutex
	phase        step.Maintenance
	scheduled    int
	released     int
	failed       string
	notInstalled bool
	err          error
	onReady      func()
}

// change is what happens to the maintenance while a job runs.
func (w *window) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *window) Schedule(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != step.MaintenanceReady && w.phase != step.MaintenanceRequested && !w.notInstalled {
		w.phase = step.MaintenanceRequested
		w.scheduled++
	}
	w.failed = ""
	return w.err
}

func (w *window) State(context.Context) (maintenance.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	phase := w.phase
	switch {
	case w.err != nil:
		return maintenance.State{}, w.err
	case w.notInstalled:
		return maintenance.State{Phase: step.MaintenanceNotInstalled, Message: "install the maintenance-operator"}, nil
	case phase == step.MaintenanceRequested:
		w.phase = step.MaintenanceReady
	case phase == step.MaintenanceReady && w.onReady != nil:
		f := w.onReady
		w.onReady = nil
		f()
	case phase == 0:
		phase = step.MaintenanceNone
	}
	return maintenance.State{Phase: phase}, nil
}

func (w *window) Fail(_ context.Context, message string) error { w.failed = message; return nil }

func (w *window) Release(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.phase != step.MaintenanceNone {
		w.phase = step.MaintenanceNone
		w.released++
	}
	return w.err
}

// healthy is a host that always is.
type healthy struct{}

func (healthy) Check(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}

func (healthy) Before(context.Context) ([]health.Complaint, error) { return nil, nil }
