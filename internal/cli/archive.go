package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// ArchiveList is what is archived on this machine, for printing.
type ArchiveList struct {
	Images []ArchivedImage `json:"images"`
}

// ArchivedImage is one archived image, for printing.
type ArchivedImage struct {
	// Entry is the name that the archive commands take.
	Entry    string    `json:"entry"`
	UniqueID string    `json:"uniqueID,omitempty"`
	Class    string    `json:"class,omitempty"`
	Model    string    `json:"model,omitempty"`
	BoardID  string    `json:"boardID,omitempty"`
	Version  string    `json:"version,omitempty"`
	BootID   string    `json:"bootID,omitempty"`
	Source   string    `json:"source,omitempty"`
	Job      string    `json:"job,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	Digest   string    `json:"digest,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Pinned   bool      `json:"pinned,omitempty"`
	// Unhealthy images are evidence of a failed update and never restored.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Problem says why the image cannot be used; empty when its manifest is sound.
	Problem string `json:"problem,omitempty"`
}

// ListArchive lists what is archived in the state directory, also while another process has it open. The images themselves
// are not read.
func ListArchive(stateDir string) (ArchiveList, error) {
	entries, err := archive.New(filepath.Join(stateDir, state.ArchiveDir), durable.OS{}).List()
	return ArchiveList{archived(entries)}, err
}

// Pin keeps an archived image of this machine from being removed when newer ones come, until Unpin.
func Pin(stateDir string, this state.Machine, entry string) error {
	return withState(stateDir, this, func(s *state.State) error { return s.Archive.Pin(entry) })
}

// Unpin undoes Pin.
func Unpin(stateDir string, this state.Machine, entry string) error {
	return withState(stateDir, this, func(s *state.State) error { return s.Archive.Unpin(entry) })
}

// withState opens the state of this machine. What is of another one is set aside, which an error says: what was asked for may be there.
func withState(dir string, this state.Machine, do func(*state.State) error) error {
	s, err := state.Open(dir, state.Options{Daemon: version.Current(), Machine: this})
	if err != nil {
		return err
	}
	if err = do(s); err != nil && s.Notice != "" {
		err = fmt.Errorf("%w. %s", err, s.Notice)
	}
	return errors.Join(err, s.Close())
}

func archived(entries []archive.Entry) []ArchivedImage {
	out := []ArchivedImage{}
	for _, e := range entries {
		image := ArchivedImage{Entry: e.Name, Pinned: e.Pinned, Unhealthy: e.Unhealthy}
		if e.Err != nil {
			image.Problem = e.Err.Error()
			out = append(out, image)
			continue
		}
		m := e.Manifest
		image.UniqueID, image.Class, image.Model, image.BoardID = m.UniqueID, string(m.Class), m.Model, m.BoardID
		image.Version, image.BootID, image.Source, image.Job = string(m.Version), m.BootID, m.Rollback.String(), m.Job
		image.Time, image.Digest, image.Size = m.Time, m.Digest, m.Size
		out = append(out, image)
	}
	return out
}

func (l ArchiveList) table(w io.Writer) error {
	var rows [][]string
	for _, i := range l.Images {
		at := ""
		if !i.Time.IsZero() {
			at = i.Time.UTC().Format(time.RFC3339)
		}
		note := i.Problem
		switch {
		case note != "":
			note = "damaged: " + note
		case i.Unhealthy:
			note = "evidence, never restored"
		case i.Pinned:
			note = "pinned"
		}
		rows = append(rows, []string{i.Entry, i.Class, i.Model, i.BoardID, i.Version, i.Source, at, cmp.Or(i.Job, "by hand"), count(int(i.Size)), note})
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is archived.")
		return err
	}
	return columns(w, []string{"ENTRY", "CLASS", "MODEL", "BOARD", "VERSION", "SOURCE", "TIME", "JOB", "BYTES", "NOTE"}, rows)
}

// Archiving holds what manual backup and restore need.
type Archiving struct {
	StateDir string
	// Machine is this one.
	Machine state.Machine
	// BootID reads the boot id of the running kernel.
	BootID func() (string, error)
	// Scan reads all devices, incomplete classes or not.
	Scan    func(context.Context) (host.Inventory, error)
	Drivers driver.Set
	Writes  engine.Writes
	// Log is where progress is printed.
	Log io.Writer
}

// Backup is what was backed up, for printing.
type Backup struct {
	UniqueID string `json:"uniqueID"`
	Version  string `json:"version"`
	// Place is the entry in the archive, or the directory.
	Place string `json:"place"`
}

func (b Backup) table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "Backed up %s of %s to %s.\n", b.Version, b.UniqueID, b.Place)
	return err
}

// Backup reads the running firmware of the device into the archive, or into the new directory named by to when that is not
// empty. It refuses while a daemon runs, if the target exists, and if a failed job left the running firmware, which must
// not be restored later.
func (a Archiving) Backup(ctx context.Context, uniqueID, to string) (Backup, error) {
	var out Backup
	err := withState(a.StateDir, a.Machine, func(s *state.State) (err error) {
		out, err = a.backup(ctx, s, uniqueID, to)
		return err
	})
	if err != nil {
		return Backup{}, fmt.Errorf("back up %s: %w", uniqueID, err)
	}
	return out, nil
}

func (a Archiving) backup(ctx context.Context, s *state.State, uniqueID, to string) (Backup, error) {
	view, err := s.Journal.View()
	if err != nil {
		return Backup{}, err
	}
	if err := errors.Join(unfinished(view), failed(view, uniqueID)); err != nil {
		return Backup{}, err
	}
	d, drv, err := a.device(ctx, uniqueID)
	if err != nil {
		return Backup{}, err
	}
	fill, err := reader(d, drv)
	if err != nil {
		return Backup{}, err
	}
	bootID, err := a.BootID()
	if err != nil {
		return Backup{}, err
	}
	m := archive.Manifest{
		UniqueID: d.UniqueID, Class: d.Class, Model: d.Model, BoardID: d.BoardID, Version: d.Firmware.Running, BootID: bootID,
		Rollback: inventory.RollbackReadBack, Time: time.Now().UTC(),
	}
	_, all, err := a.parameters(ctx, d)
	if err != nil {
		_, _ = fmt.Fprintf(a.Log, "Its settings are not backed up: %v.\n", err)
	}
	m.Settings = archive.SettingsOf(all)
	out := Backup{UniqueID: uniqueID, Version: string(m.Version), Place: to}
	if to != "" {
		if out.Place, err = filepath.Abs(to); err != nil {
			return Backup{}, err
		}
		return out, archive.Write(ctx, durable.OS{}, out.Place, m, fill)
	}
	if out.Place, err = free(s.Archive, m); err != nil {
		return Backup{}, err
	}
	return out, s.Archive.Keep(ctx, m, fill)
}

// unfinished refuses to work on devices while a job is not finished.
func unfinished(v journal.View) error {
	if active := v.Active(); active != nil && active.Record.Outcome == "" {
		return fmt.Errorf("job %s is not finished; let the daemon, or apply, finish it first", active.Name)
	}
	return nil
}

// failed refuses firmware that a failed job left.
func failed(v journal.View, uniqueID string) error {
	if d, ok := v.Devices[uniqueID]; ok && d.Unhealthy != nil {
		return fmt.Errorf("job %s left the device unhealthy: its firmware is not backed up, because it must not be restored later", d.Unhealthy.Job)
	}
	ofDevice := func(u journal.Update) bool { return u.UniqueID == uniqueID }
	if held := v.Held(); held != nil && slices.ContainsFunc(held.Updates, ofDevice) {
		return fmt.Errorf("job %s failed and holds this machine: the firmware of the device is not backed up, because it must not be restored later", held.Name)
	}
	return nil
}

// device finds a device and its driver, and makes sure that nothing writes to it.
func (a Archiving) device(ctx context.Context, uniqueID string) (inventory.Device, driver.Driver, error) {
	writing, err := a.Writes.WriteRunning(uniqueID)
	if err != nil {
		return inventory.Device{}, nil, err
	}
	if writing {
		return inventory.Device{}, nil, errors.New("a write to the device is running; wait for its end")
	}
	found, err := a.Scan(ctx)
	if err != nil {
		return inventory.Device{}, nil, err
	}
	i := slices.IndexFunc(found.Devices, func(d inventory.Device) bool { return d.UniqueID == uniqueID })
	if i < 0 {
		return inventory.Device{}, nil, errors.New("no device of this machine has the id; discover -o json lists them")
	}
	d := found.Devices[i]
	if d.Err != nil {
		return inventory.Device{}, nil, fmt.Errorf("read device: %w", d.Err)
	}
	drv, err := a.Drivers.Of(d)
	return d, drv, err
}

// parameters are all those of the device, and what changes them; none where it has no settings.
func (a Archiving) parameters(ctx context.Context, d inventory.Device) (c driver.Configurer, all []inventory.Parameter, err error) {
	if c, err = a.Drivers.Configurer(d); err == nil {
		all, err = c.Parameters(ctx, d.Identity)
	}
	if errors.Is(err, driver.ErrNotSupported) {
		err = nil
	}
	return c, all, err
}

// reader is the function that reads the image out of the device.
func reader(d inventory.Device, drv driver.Driver) (func(context.Context, string) error, error) {
	archiver, ok := drv.(driver.Archiver)
	if f := d.Firmware; !ok || f.Rollback != inventory.RollbackReadBack || f.RollbackMessage != "" {
		return nil, fmt.Errorf("its firmware cannot be read out: %s", cmp.Or(f.RollbackMessage, "driver "+drv.Name()+" or the device does not support it"))
	}
	return func(ctx context.Context, path string) error { return archiver.Archive(ctx, d.Identity, path) }, nil
}

// free is the name of the entry for the manifest; an error when the archive has that entry already.
func free(store *archive.Store, m archive.Manifest) (string, error) {
	name := m.Entry()
	entries, err := store.List()
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name == name && e.Err == nil {
			return "", fmt.Errorf("%s: %w", name, archive.ErrExists)
		}
	}
	return name, nil
}

// Restored is what was written back, for printing.
type Restored struct {
	UniqueID string `json:"uniqueID"`
	// Running is what the device ran before, and Version what was written.
	Running string `json:"running"`
	Version string `json:"version"`
	// Activation is what the device needs to run it: None, DeviceReset, DriverReload, Reboot or PowerCycle.
	Activation string `json:"activation"`

	needs inventory.Activation
}

func (r Restored) table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "Restored %s to %s: %s.\n", r.Version, r.UniqueID, activationText(r.needs))
	return err
}

// Restore writes an entry of the archive back to its device. It refuses while a daemon runs, and if the entry is incomplete
// or was archived from an unhealthy host. The device is not activated.
func (a Archiving) Restore(ctx context.Context, entry string) (Restored, error) {
	return a.restore(ctx, entry, func(s *state.State) (driver.Image, archive.Manifest, error) { return s.Archive.Restorable(entry) })
}

// RestoreFrom is Restore with a directory that Backup made.
func (a Archiving) RestoreFrom(ctx context.Context, dir string) (Restored, error) {
	return a.restore(ctx, dir, func(*state.State) (driver.Image, archive.Manifest, error) {
		path, err := filepath.Abs(dir)
		if err != nil {
			return driver.Image{}, archive.Manifest{}, err
		}
		return archive.Load(durable.OS{}, path)
	})
}

// verified finds an image and verifies it.
type verified func(*state.State) (driver.Image, archive.Manifest, error)

func (a Archiving) restore(ctx context.Context, place string, find verified) (Restored, error) {
	var out Restored
	err := withState(a.StateDir, a.Machine, func(s *state.State) error {
		view, err := s.Journal.View()
		if err != nil {
			return err
		}
		if err := unfinished(view); err != nil {
			return err
		}
		img, m, err := find(s)
		if err != nil {
			return err
		}
		out, err = a.write(ctx, img, m)
		return err
	})
	if err != nil {
		return Restored{}, fmt.Errorf("restore %s: %w", place, err)
	}
	return out, nil
}

// configure gives the device those of its archived settings that it takes, and says which it does not.
func (a Archiving) configure(ctx context.Context, d inventory.Device, m archive.Manifest) (inventory.Activation, error) {
	c, all, err := a.parameters(ctx, d)
	if err != nil {
		return 0, err
	}
	set, left := m.SettingsFor(all, false)
	if len(left) > 0 {
		_, _ = fmt.Fprintf(a.Log, "%s does not take these archived settings with the firmware that runs; once the other runs, restore again: %s.\n", d.UniqueID, text.Some(left, 12))
	}
	if len(set) == 0 {
		return inventory.ActivateNone, nil
	}
	_, _ = fmt.Fprintf(a.Log, "Restoring %s of %s.\n", text.Quantity(len(set), "setting", "settings"), d.UniqueID)
	return c.Configure(ctx, d.Identity, driver.Configuration{Set: set})
}

func (a Archiving) write(ctx context.Context, img driver.Image, m archive.Manifest) (Restored, error) {
	d, drv, err := a.device(ctx, m.UniqueID)
	if err != nil {
		return Restored{}, err
	}
	switch {
	case d.Class != m.Class:
		return Restored{}, fmt.Errorf("the image is of a %s and the device is a %s", m.Class, d.Class)
	case inventory.NormalizeID(d.BoardID) != inventory.NormalizeID(m.BoardID):
		return Restored{}, fmt.Errorf("the image is of board %q and the device is %q", m.BoardID, d.BoardID)
	}
	if err := drv.Check(ctx, d.Identity, img); err != nil {
		return Restored{}, err
	}
	_, _ = fmt.Fprintf(a.Log, "Writing %s to %s, which runs %s.\n", img.Version, d.UniqueID, d.Firmware.Running)
	needs, err := drv.Write(ctx, d.Identity, img, a.progress())
	if err != nil {
		return Restored{}, err
	}
	more, err := a.configure(ctx, d, m)
	if err != nil {
		return Restored{}, fmt.Errorf("the firmware is written, and its settings are not restored: %w", err)
	}
	needs = max(needs, more)
	return Restored{
		UniqueID: d.UniqueID, Running: string(d.Firmware.Running), Version: string(img.Version), Activation: needs.String(), needs: needs,
	}, nil
}

// progress prints how far a write is, in steps of ten percent.
func (a Archiving) progress() driver.Progress {
	printed := 0
	return func(percent int) {
		if percent/10 > printed {
			printed = percent / 10
			_, _ = fmt.Fprintf(a.Log, "%d%% written\n", printed*10)
		}
	}
}
