package chaos

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	machines "github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// sabotage breaks what the engine relies on, or what it does.
type sabotage struct {
	scenario string
	spoil    func(*world, *engine.Config)
	// finds is the invariant whose violation shows it.
	finds string
}

// sabotages hold at least one for each invariant: a checker that never finds anything proves nothing.
func sabotages(t *testing.T) map[string]sabotage {
	return map[string]sabotage{
		"a journal that forgets": {"nic-reset", func(_ *world, c *engine.Config) { c.Journal = &forgetful{Journal: c.Journal} }, "I1"},
		"an archive that a power cut takes away": {
			"bios-image", func(_ *world, c *engine.Config) { c.Archive = &careless{dir: t.TempDir()} }, "I1",
		},
		"a maintenance that is taken for granted": {
			"nic-reset", func(_ *world, c *engine.Config) { c.Maintenance = &maintenance.None{} }, "I1",
		},
		"a device that takes its only slot for a way back": {
			"one-slot", func(w *world, c *engine.Config) {
				c.Host = misread{host{w}, func(fw *inventory.Firmware) { fw.Rollback = inventory.RollbackSlot }}
			}, "I1",
		},
		"a way back that goes before the job has ended": {
			"bad-disk-rolled-back", func(w *world, c *engine.Config) { c.Drivers = driver.Set{wasteful{tools{w.sim, w}}} }, "I5",
		},
		"writes that go on unseen": {"nic-reset", func(_ *world, c *engine.Config) { c.Writes = blind{} }, "I2"},
		"a gate that finds every host healthy": {
			"bad-nic-rolled-back", func(_ *world, c *engine.Config) { c.Health = cheerful{c.Health} }, "I4",
		},
		"settings that are taken for what was asked for": {
			"settings", func(w *world, c *engine.Config) { c.Drivers = driver.Set{obliging{tools{w.sim, w}}} }, "I4",
		},
		"settings that are not remembered": {
			"settings-and-bad-firmware", edited(func(j *journal.Job) {
				j.Updates = slices.Clone(j.Updates)
				for i := range j.Updates {
					j.Updates[i].Before = nil
				}
			}), "I4",
		},
		"settings that are not undone after an unhealthy verdict": {
			"settings-and-bad-firmware", func(w *world, c *engine.Config) { c.Drivers = driver.Set{&stubborn{tools: tools{w.sim, w}}} }, "I4",
		},
		"attempts that are forgotten": {
			"nic-reset", edited(func(j *journal.Job) {
				for i := range j.Record.Steps {
					if s := &j.Record.Steps[i]; s.State == step.Succeeded {
						s.Attempt = 0
					}
				}
			}), "I5",
		},
		"a failure that does not say why": {
			"nic-reset", edited(func(j *journal.Job) {
				if j.Record.Failure != nil {
					failure := *j.Record.Failure
					failure.Message, j.Record.Failure = "", &failure
				}
			}), "I7",
		},
		"a maintenance that looks gone while it is there": {
			"nic-reset", func(_ *world, c *engine.Config) { c.Maintenance = &unreturned{Window: c.Maintenance} }, "I9",
		},
		"writes that are not counted": {"nic-reset", func(_ *world, c *engine.Config) { c.Journal = uncounted{c.Journal} }, "R002-15"},
		"a verdict that nobody gave": {
			"nic-reset", edited(func(j *journal.Job) {
				if j.Record.Wrote() {
					j.Record.Verdict = &step.Verdict{Healthy: true, BootID: "boot-1"}
				}
			}), "R002-19",
		},
		"a reboot that is requested again and again": {
			"nic-reboot", func(_ *world, c *engine.Config) { c.Rebooter = insistent{c.Rebooter} }, "R002-25",
		},
		"a job that goes on though a person is needed": {
			"nic-reset", edited(func(j *journal.Job) {
				if s := j.CurrentStep(); s != nil && s.Kind == plan.Flash {
					f := &step.Failure{Message: "it failed", Blames: []string{s.Device}}
					j.Record.Failure, j.Record.Rollback = f, &step.Rollback{Failure: f}
				}
			}), "R002-27",
		},
		"a boot id that never changes": {
			"nic-reset", func(_ *world, c *engine.Config) { c.BootID = func() (string, error) { return "boot-0", nil } }, "R002-31",
		},
		"steps of a rollback that are lost": {
			"bad-nic-rolled-back", edited(func(j *journal.Job) {
				if j.Record.Outcome != "" {
					j.Record.Steps = j.Record.Steps[:len(j.Record.Steps)/2]
				}
			}), "P4",
		},
		"a health that is never known": {
			"nic-reset", func(_ *world, c *engine.Config) { c.Health = speechless{c.Health} }, "End",
		},
		"a journal that forgets what has ended": {
			"nic-reset", func(_ *world, c *engine.Config) { c.Journal = shortLived{c.Journal} }, "I5",
		},
		"a daemon that tidies up at its start": {
			"nic-reset", func(w *world, c *engine.Config) { c.Journal = tidy{c.Journal, w} }, "Quiet",
		},
		"a boot that lasts until the daemon starts": {
			"nic-reboot", func(w *world, c *engine.Config) {
				c.BootTime = func(context.Context) (step.BootTime, error) {
					if w.sim.Firmware("nic0").Running == oldVersion {
						return w.bootTime, nil
					}
					return step.BootTime{System: w.now - w.bootedAt}, nil
				}
			}, "Spared",
		},
		"a kernel that is taken for a reset": {
			"nic-reboot", func(_ *world, c *engine.Config) { c.Kexec = nil }, "Reset",
		},
		"a node that waits for hours before it helps itself": {
			"cut-off-by-its-nic", func(_ *world, c *engine.Config) { c.Limits.Isolation = 5 * time.Hour }, "Alone",
		},
		"an error of the API server that is taken for an answer": {
			"bad-nic-no-way-back", func(_ *world, c *engine.Config) { c.Health = gullible{c.Health} }, "Alone",
		},
		"a drive that is taken for the job's": {
			"nic-reboot", func(_ *world, c *engine.Config) { c.Health = complaining{c.Health, mistaken} }, "Foreign",
		},
		"complaints that are never the same twice": {
			"bios-image", func(w *world, c *engine.Config) {
				c.Health = complaining{c.Health, func(h *health.Complaint) { h.Subject.Of = w.now.String() }}
			}, "Acquitted",
		},
		"drives whose arrays nobody sees": {
			"two-of-one-array", func(w *world, c *engine.Config) { c.Uses = mistold{host{w}, func(u *inventory.Use) { u.Arrays = nil }} }, "Set",
		},
		"a degraded array that is taken for a whole one": {
			"array-members", func(w *world, c *engine.Config) {
				w.degrade("md0", longFault)
				c.Uses = mistold{host{w}, func(u *inventory.Use) {
					for i, a := range u.Arrays {
						u.Arrays[i] = inventory.Array{Name: a.Name}
					}
				}}
			}, "Set",
		},
		"the root of the node that is taken for data": {
			"array-members", func(w *world, c *engine.Config) { c.Uses = mistold{host{w}, func(u *inventory.Use) { u.Carries = "" }} }, "Carrier",
		},
		"a boot that is timed by another clock": {
			"nic-reboot", func(w *world, c *engine.Config) {
				c.BootTime = func(context.Context) (step.BootTime, error) { return step.BootTime{System: w.now}, nil }
			}, "Slow",
		},
		"a second slow boot that nobody is told of": {
			"nic-reboot", func(w *world, c *engine.Config) {
				w.drags = maxLives
				c.Journal = edit{c.Journal, func(j *journal.Job) {
					if v := j.Record.Verdict; v != nil && v.Healthy {
						v.Complaints = nil
					}
				}}
			}, "Slow",
		},
		"a slow boot that is taken for a fault": {
			"nic-reboot", func(w *world, c *engine.Config) {
				w.drags = maxLives
				c.Health = alarmed{c.Health, w}
			}, "Spared",
		},
		"a step that erases another drive than a person named": {
			"erase-drives", func(_ *world, c *engine.Config) { c.Tasks = mistaking{c.Tasks.(tasks)} }, "Consent",
		},
		"a drive that is believed": {
			"erase-a-drive-that-lies", func(w *world, c *engine.Config) { c.Tasks = tasks{w, blank{media{w}}, tools{w.sim, w}} }, "Certified",
		},
		"a drive that does not say that it was told": {
			"erase-drives", func(w *world, c *engine.Config) { c.Tasks = tasks{w, media{w}, silent{tools{w.sim, w}}} }, "Once",
		},
		"a guard that is not installed": {
			"cut-off-by-its-nic", func(_ *world, c *engine.Config) { c.Guard = nil }, "End",
		},
		"a guard that is left behind": {
			"nic-reboot", func(_ *world, c *engine.Config) { c.Guard = lasting{c.Guard} }, "Guard",
		},
	}
}

// maxHunt bounds the runs in which a sabotage must be found.
const maxHunt = 200

func TestSabotageIsFoundOut(t *testing.T) {
	for name, c := range sabotages(t) {
		t.Run(name, func(t *testing.T) {
			s, err := scenario(c.scenario)
			require.NoError(t, err)
			found, runs := hunt(t, s, c.spoil)
			require.Equal(t, c.finds, found, "in %d runs", runs)
			t.Logf("found in run %d", runs)
		})
	}
}

// Whoever adds an invariant shows by a sabotage that its violation is found.
func TestEveryInvariantHasASabotage(t *testing.T) {
	source, err := os.ReadFile("judge.go")
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, c := range sabotages(t) {
		shown[c.finds] = true
	}
	found := regexp.MustCompile(`violate\("([^"]+)"`).FindAllSubmatch(source, -1)
	require.NotEmpty(t, found)
	for _, invariant := range found {
		assert.True(t, shown[string(invariant[1])], "no sabotage shows that the judge finds a violation of %s", invariant[1])
	}
}

// hunt breaks boundaries until an invariant is violated, and returns which and in which run.
func hunt(t *testing.T, s Scenario, spoil func(*world, *engine.Config)) (invariant string, runs int) {
	t.Helper()
	golden, err := Run{Scenario: s, sabotage: spoil}.Do()
	require.NoError(t, err)
	if len(golden.Violations) > 0 {
		return golden.Violations[0].Invariant, 1
	}
	var faults []Fault
	for _, b := range distinct(golden.boundaries) {
		faults = append(faults, possible(b.Op, b.number)...)
	}
	seeded(1).Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	count, rank := map[Kind]int{}, map[Fault]int{} // each kind has its turn
	for _, f := range faults {
		count[f.Kind]++
		rank[f] = count[f.Kind]
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return rank[a] - rank[b] })
	for runs, f := range faults[:min(len(faults), maxHunt)] {
		out, err := Run{Scenario: s, Faults: []Fault{f}, sabotage: spoil}.Do()
		require.NoError(t, err)
		if len(out.Violations) > 0 {
			return out.Violations[0].Invariant, runs + 2
		}
	}
	return "nothing", maxHunt
}

// mistaking erases disk2 in place of disk1.
type mistaking struct{ tasks }

func (m mistaking) Run(ctx context.Context, s step.Step, r journal.RequestedStep, u journal.Update) (*step.Returned, *engine.Underway) {
	if u.UniqueID == "disk1" {
		u.UniqueID, s.Arguments = "disk2", []plan.Argument{{Name: plan.EraseSerialNumber, Value: serialOf("disk2")}}
	}
	return m.tasks.Run(ctx, s, r, u)
}

// silent is a driver whose drives always say that they were never erased.
type silent struct{ tools }

func (s silent) Erasure(ctx context.Context, id inventory.Identity) (driver.Erasure, error) {
	e, err := s.tools.Erasure(ctx, id)
	for err == nil && e.State == driver.EraseRunning {
		e, err = s.Simulated.Erasure(ctx, id)
	}
	return driver.Erasure{Methods: e.Methods, Untouched: true, By: e.By}, err
}

// blank are drives of which nobody can tell what they store.
type blank struct{ media }

func (b blank) Volumes(ctx context.Context, id inventory.Identity) ([]machines.Volume, error) {
	volumes, err := b.media.Volumes(ctx, id)
	for i := range volumes {
		volumes[i].ReaderAt = bytes.NewReader(make([]byte, stores))
	}
	return volumes, err
}

// Claim implements erase.Disks.
func (b blank) Claim(ctx context.Context, id inventory.Identity) ([]machines.Volume, error) {
	return b.Volumes(ctx, id)
}

// edit is a journal that writes another job than it is given.
type edit struct {
	engine.Journal
	change func(*journal.Job)
}

// obliging is a driver that says of settings that they are what the job wants.
type obliging struct{ tools }

func (o obliging) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	all, err := o.tools.Parameters(ctx, id, names...)
	for i := range all {
		all[i].Current, all[i].Next = inventory.Read(settingValue), inventory.Read(settingValue)
	}
	return all, err
}

// stubborn is a driver that gives no setting back, and says that it did.
type stubborn struct {
	tools
	asked string
}

func (s *stubborn) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	if s.asked = c.Set[0].Value; s.asked == settingBefore {
		return inventory.ActivateDeviceReset, nil
	}
	return s.tools.Configure(ctx, id, c)
}

func (s *stubborn) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	all, err := s.tools.Parameters(ctx, id, names...)
	for i := range all {
		if s.asked == settingBefore {
			all[i].Current, all[i].Next = inventory.Read(s.asked), inventory.Read(s.asked)
		}
	}
	return all, err
}

func edited(change func(*journal.Job)) func(*world, *engine.Config) {
	return func(_ *world, c *engine.Config) { c.Journal = edit{c.Journal, change} }
}

func (e edit) Save(j journal.Job, devices ...journal.Device) error {
	j.Record = j.Record.Clone()
	e.change(&j)
	return e.Journal.Save(j, devices...)
}

// uncounted writes nothing about devices.
type uncounted struct{ engine.Journal }

func (u uncounted) Save(j journal.Job, _ ...journal.Device) error { return u.Journal.Save(j) }

// shortLived forgets jobs that have ended.
type shortLived struct{ engine.Journal }

func (s shortLived) View() (journal.View, error) {
	v, err := s.Journal.View()
	v.Jobs = slices.DeleteFunc(v.Jobs, func(j journal.Job) bool { return j.Record.Outcome != "" })
	return v, err
}

// tidy returns the node to service when it finds a job that has ended.
type tidy struct {
	engine.Journal
	w *world
}

func (t tidy) View() (journal.View, error) {
	v, err := t.Journal.View()
	if t.w.quiet > 0 && v.Active() != nil && v.Active().Record.Outcome != "" {
		_ = maintainer{t.w}.Release(context.Background())
	}
	return v, err
}

// misread reads devices as they are not.
type misread struct {
	host
	change func(*inventory.Firmware)
}

func (m misread) Find(ctx context.Context, class inventory.Class, uid string) (inventory.Device, bool, error) {
	d, found, err := m.host.Find(ctx, class, uid)
	if d.Firmware != nil {
		m.change(d.Firmware)
	}
	return d, found, err
}

// mistold says of drives what is not so.
type mistold struct {
	host
	change func(*inventory.Use)
}

func (m mistold) Use(ctx context.Context, id inventory.Identity) (inventory.Use, error) {
	use, err := m.host.Use(ctx, id)
	m.change(&use)
	return use, err
}

// alarmed complains of a slow boot.
type alarmed struct {
	engine.Health
	w *world
}

func (a alarmed) Check(ctx context.Context, b health.Baseline, t []health.Target) ([]health.Complaint, error) {
	if a.w.bootTime.Firmware == slowPost {
		return []health.Complaint{{UniqueID: "nic0", Class: inventory.NIC, Message: "slow"}}, nil
	}
	return a.Health.Check(ctx, b, t)
}

// lasting never removes the guard.
type lasting struct{ engine.Guard }

func (lasting) Remove(context.Context) error { return nil }

// wasteful overwrites all slots with what it writes.
type wasteful struct{ tools }

func (w wasteful) Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	defer w.waste(id)
	return w.tools.Activate(ctx, id, kind)
}

func (w wasteful) Write(ctx context.Context, id inventory.Identity, img driver.Image, p driver.Progress) (inventory.Activation, error) {
	defer w.waste(id)
	return w.tools.Write(ctx, id, img, p)
}

func (w wasteful) Revert(ctx context.Context, id inventory.Identity, v inventory.Version) (inventory.Activation, error) {
	for _, slot := range w.sim.Firmware(id.UniqueID).Slots {
		if slot.State == inventory.SlotIdle {
			v = slot.Version
		}
	}
	return w.tools.Revert(ctx, id, v)
}

func (w wasteful) waste(id inventory.Identity) { w.sim.Waste(id.UniqueID) }

// unreturned says after its first request to return the node that it is returned, and does nothing.
type unreturned struct {
	maintenance.Window
	asked bool
}

func (u *unreturned) Release(context.Context) error { u.asked = true; return nil }

func (u *unreturned) State(ctx context.Context) (maintenance.State, error) {
	if u.asked {
		return maintenance.State{Phase: step.MaintenanceNone}, nil
	}
	return u.Window.State(ctx)
}

// insistent requests each reboot more often than a job may.
type insistent struct{ engine.Rebooter }

func (i insistent) Reboot(ctx context.Context) error {
	for range step.MaxReboots {
		if err := i.Rebooter.Reboot(ctx); err != nil {
			return err
		}
	}
	return i.Rebooter.Reboot(ctx)
}

// speechless never knows the health of the host.
type speechless struct{ engine.Health }

func (speechless) Check(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, errors.New("no answer")
}

// forgetful keeps of each job how it came and how it ended.
type forgetful struct {
	engine.Journal
	known bool
}

func (f *forgetful) Save(j journal.Job, devices ...journal.Device) error {
	if f.known && j.Record.Outcome == "" {
		return nil
	}
	f.known = true
	return f.Journal.Save(j, devices...)
}

// careless archives in a directory it never syncs.
type careless struct{ dir string }

func (c *careless) Keep(ctx context.Context, m archive.Manifest, fill func(context.Context, string) error) error {
	path := filepath.Join(c.dir, m.UniqueID+string(m.Version))
	_ = os.Remove(path)
	return fill(ctx, path)
}

func (c *careless) Image(uid string, v inventory.Version) (driver.Image, archive.Manifest, error) {
	path := filepath.Join(c.dir, uid+string(v))
	raw, err := os.ReadFile(path)
	if err != nil {
		return driver.Image{}, archive.Manifest{}, archive.ErrNone
	}
	img := driver.Image{Path: path, Version: v, Digest: digest(raw), Size: int64(len(raw))}
	return img, archive.Manifest{UniqueID: uid, BoardID: "BOARD_" + uid, Version: v}, nil
}

func (c *careless) Restorable(string) (driver.Image, archive.Manifest, error) {
	return driver.Image{}, archive.Manifest{}, archive.ErrNone
}

type blind struct{}

func (blind) WriteRunning(string) (bool, error) { return false, nil }

// gullible takes an error of the API server for an answer.
type gullible struct{ engine.Health }

func (g gullible) Check(ctx context.Context, b health.Baseline, t []health.Target) ([]health.Complaint, error) {
	worse, err := g.Health.Check(ctx, b, t)
	if errors.Is(err, health.ErrUnanswered) {
		return nil, errors.New("it answered")
	}
	return worse, err
}

// mistaken takes each device for the NIC of the job.
func mistaken(c *health.Complaint) { c.UniqueID = "nic0" }

// complaining changes what the host complains about.
type complaining struct {
	engine.Health
	change func(*health.Complaint)
}

func (c complaining) changed(worse []health.Complaint, err error) ([]health.Complaint, error) {
	for i := range worse {
		c.change(&worse[i])
	}
	return worse, err
}

func (c complaining) Check(ctx context.Context, b health.Baseline, t []health.Target) ([]health.Complaint, error) {
	return c.changed(c.Health.Check(ctx, b, t))
}

func (c complaining) Look(ctx context.Context, b health.Baseline, t []health.Target) ([]health.Complaint, error) {
	return c.changed(c.Health.Look(ctx, b, t))
}

type cheerful struct{ engine.Health }

func (cheerful) Check(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}

func (cheerful) Look(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}

func (cheerful) LookAlone(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}
