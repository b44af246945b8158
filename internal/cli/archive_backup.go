package cli

import (
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
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Archiving holds what manual backup and restore need.
type Archiving struct {
	StateDir string
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
	err := withState(a.StateDir, func(s *state.State) (err error) {
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

// reader is the function that reads the image out of the device.
func reader(d inventory.Device, drv driver.Driver) (func(context.Context, string) error, error) {
	archiver, ok := drv.(driver.Archiver)
	if f := d.Firmware; !ok || f.Rollback != inventory.RollbackReadBack || f.RollbackMessage != "" {
		return nil, fmt.Errorf("its firmware cannot be read out: %s", orElse(f.RollbackMessage, "driver "+drv.Name()+" or the device does not support it"))
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
