package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// maxLives bounds how often a daemon is started for one job.
const maxLives = 60

func newWorld(s Scenario, dir string, faults []Fault) (*world, error) {
	w := &world{
		scenario: s, dir: dir, faults: slices.Clone(faults), boot: 1, driver: 1, window: window{phase: step.MaintenanceNone},
		sim: drivertest.NewSimulated(driverName), weak: map[string]span{}, bootTime: step.BootTime{Firmware: postTime, By: sysfs.ByFirmware, System: bootTime}, images: map[inventory.Digest][]byte{}, fetched: map[inventory.Digest]bool{}, filesDir: filepath.Join(dir, "files-0"),
	}
	w.sim.RunBy(w.carryOut)
	for _, spec := range s.Devices {
		w.plug(spec, spec.ID, false)
		if spec.Staged {
			w.sim.Stage(spec.ID, newVersion, spec.Defect)
		}
		for _, image := range [][]byte{spec.target(), spec.before()} {
			w.images[digest(image)] = image
		}
	}
	w.plug(DeviceSpec{ID: bystanderID, Class: inventory.Disk, Activation: inventory.ActivateReboot}, bystanderID, true)
	for _, d := range []string{w.stateDir(), w.filesDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	w.syncFiles()
	return w, nil
}

func nameOf(uniqueID string) string { return "node-" + uniqueID }

// job is the job that the operator queued for the host.
func (w *world) job(name string) journal.Job {
	j := journal.Job{Name: name, UID: "uid-" + name, Accepted: w.wall(), Deadline: w.wall().Add(2 * time.Hour), Soak: time.Minute}
	for _, spec := range w.scenario.Devices {
		u := journal.Update{
			Device: nameOf(spec.ID), UniqueID: spec.ID, FromVersion: string(oldVersion), Version: string(newVersion),
			Digest: digest(spec.target()).String(), Class: spec.Class,
			Origin: []journal.Origin{{Kind: "FirmwareTemplate", Name: "template", Rule: "rule"}},
		}
		if spec.Setting {
			u.Settings = []journal.Setting{{Name: settingName, Value: settingValue}}
		}
		if spec.SettingOnly {
			u.FromVersion, u.Version, u.Digest, u.Origin = "", "", "", nil
		}
		if spec.Rollback == inventory.RollbackImage {
			u.RollbackDigest = digest(spec.before()).String()
		}
		j.Updates = append(j.Updates, u)
	}
	switch {
	case w.scenario.Sanitize:
		return w.sanitizing(j)
	case w.scenario.Scrub:
		return scrubbing(j)
	}
	j.Record = engine.NewRecord(catalog(), j.Updates)
	j.Record.RollbackRequired = w.scenario.RollbackRequired
	return j
}

// run executes the job to its end, over all lives of the daemon.
func (w *world) run(j journal.Job) {
	w.current = j.UID
	w.disturbed(0)
	w.note(Event{Kind: EventSubmit, Detail: j.Name})
	for range maxLives {
		if w.live(&j) {
			w.note(Event{Kind: EventAfterEnd, Snapshot: w.snapshot()})
			return
		}
		if w.broken() {
			return
		}
	}
	w.note(Event{Kind: EventBroken, Detail: fmt.Sprintf("the job does not end in %d lives of the daemon", maxLives)})
}

func (w *world) broken() bool {
	return slices.ContainsFunc(w.history, func(e Event) bool { return e.Kind == EventBroken })
}

// stuck says where the job is and what it waits for.
func (w *world) stuck() string {
	now, ok := w.engine.Current()
	if !ok {
		return "none is executed"
	}
	at := "its end"
	if s := now.Job.CurrentStep(); s != nil {
		at = fmt.Sprintf("%s %s, %s", s.Kind, s.Device, s.State)
	}
	return fmt.Sprintf("it is at %s and waits: %s", at, now.Waiting)
}

// live is one life of the daemon: it ends with the job, with a death or with a reboot.
func (w *world) live(submit *journal.Job) (over bool) {
	w.life++
	w.idled = false
	var err error
	if w.book, err = journal.Open(w.stateDir()); err == nil {
		err = w.readDisk()
	}
	if err != nil {
		w.note(Event{Kind: EventBroken, Detail: err.Error()})
		return false
	}
	w.note(Event{Kind: EventStart})
	w.note(Event{Kind: EventSaved, Detail: "as found"})
	died := w.daemon(submit)
	if err := w.book.Close(); err != nil {
		w.note(Event{Kind: EventBroken, Detail: err.Error()})
		return false
	}
	w.note(Event{Kind: EventDeath, Detail: string(died.Kind)})
	w.stopping, w.pending = false, ""
	w.afterDeath(died)
	w.unsynced = nil
	if w.rebootAt > 0 && died.Kind != KillDaemon || w.rebootAt > w.now+30*time.Minute {
		w.restartHost(died, false)
	}
	j := w.disk.Job(w.current)
	return died.Kind == "" && (w.current == "" || j != nil && j.Record.Outcome != "")
}

// daemon runs until it ends by itself, or dies of the fault that is returned.
func (w *world) daemon(submit *journal.Job) (died Fault) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case death:
			died = r.fault
		case endless:
			w.note(Event{Kind: EventBroken, Detail: fmt.Sprintf("the job does not end within %s after the last fault; %s", patience, w.stuck())})
			died = Fault{Kind: Stop}
		default:
			panic(r)
		}
	}()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w.stop = stop
	w.engine = engine.New(w.config())
	if w.choose() {
		if !w.unfinished() && w.current != "" && w.disk.Job(w.current) != nil { // nothing is to be done either
			if err := w.config().Guard.Remove(ctx); err != nil { // by the guard that the kubelet starts
				w.note(Event{Kind: EventBroken, Detail: err.Error()})
			}
			w.advance(w.quiet)
			w.quiet = 0
			return Fault{}
		}
		for w.apiAway() {
			w.advance(poll)
		}
		w.booted = false
	}
	if w.guarding {
		submit = nil
		w.engine = engine.New(w.alone(w.config()))
	}
	if submit != nil {
		for err := w.engine.Submit(*submit); err != nil; err = w.engine.Submit(*submit) {
			w.wait(ctx, poll, nil)
			if errors.Is(err, engine.ErrBusy) || ctx.Err() != nil {
				break
			}
		}
	}
	for w.returned && ctx.Err() == nil {
		if err := w.engine.Release(w.current); err != nil {
			w.wait(ctx, poll, nil)
			continue
		}
		w.returned = false
	}
	if err := w.engine.Run(ctx); err != nil {
		w.note(Event{Kind: EventBroken, Detail: err.Error()})
	}
	if w.unfinished() || !w.idled { // it was told to end before it had done everything
		return Fault{Kind: Stop}
	}
	return Fault{}
}

func (w *world) config() engine.Config {
	h := host{w}
	c := engine.Config{
		Journal: diary{w}, Archive: archive.New(filepath.Join(w.filesDir, "archive"), shelf{w}), Host: h,
		Drivers: driver.Set{tools{w.sim, w}}, Images: h, Catalog: catalog(), Maintenance: maintainer{w}, Writes: h, Rebooter: h,
		Health: checked{health.Checker{Scanner: h, Node: h, Network: h, Arrays: h}, w}, Tasks: tasks{w, media{w}, tools{w.sim, w}}, Uses: h,
		BootID:    func() (string, error) { w.point(opPass, Before, ""); return w.bootID(), nil },
		BootTime:  func(context.Context) (step.BootTime, error) { return w.bootTime, nil },
		SinceBoot: func() (time.Duration, error) { return w.now - w.bootedAt, nil },
		Kexec:     func() (bool, error) { return w.kexec, nil },
		Limits: step.Limits{
			Read: 2 * time.Minute, Reboot: 15 * time.Minute, Health: 5 * time.Minute, Boot: 30 * time.Minute,
			Maintenance: 10 * time.Minute, Isolation: 10 * time.Minute,
		},
		Poll: poll, Now: w.wall, Elapsed: func() time.Duration { return w.now }, Wait: w.wait,
	}
	c.Guard = watch{w}
	if w.sabotage != nil {
		w.sabotage(w, &c)
	}
	return c
}

// setting is that of the device that is in force; empty where it has none.
func (w *world) setting(d *device) string {
	if !d.spec.Setting {
		return ""
	}
	return w.sim.Parameter(d.id.UniqueID, settingName).Current.Value
}

// snapshot is how everything stands now that the job has ended.
func (w *world) snapshot() *snapshot {
	j := w.disk.Job(w.current)
	s := &snapshot{job: *j, held: j.Held(), in: maintainer{w}.settle(), stolen: w.window.stolen, guarded: w.guarded}
	if s.in == step.MaintenanceEnding {
		s.in = step.MaintenanceNone
	}
	for _, d := range w.devices {
		if d.bystander {
			continue
		}
		fw := w.sim.Firmware(d.id.UniqueID)
		s.devices = append(s.devices, deviceState{
			spec: d.spec, running: fw.Running, stored: fw.Stored, original: d.before, setting: w.setting(d), gone: d.gone, ails: w.defect(d) != drivertest.DefectNone,
		})
	}
	return s
}
