package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The name of the driver is that of its socket. The version changes whenever what the driver does changes.
const (
	name    = "acme-drive"
	version = "1.0.0"
)

// The flash memory of a drive. A file locked says why the drive takes no firmware, and as long as there is a file busy the
// drive does not get on with a write.
const (
	runningFile = "firmware"
	stagedFile  = "staged"
	lockedFile  = "locked"
	busyFile    = "busy"
)

// drives is the driver. It keeps nothing in memory: what counts is what the drives say.
type drives struct{ dir string }

var (
	_ driver.Driver   = drives{}
	_ driver.Archiver = drives{}
)

// Name is the driver's name.
func (drives) Name() string { return name }

// Version is the driver's version.
func (drives) Version() string { return version }

// Support is what the matches the plugin is served with say; nobody asks this one.
func (drives) Support(inventory.Identity) driver.Support { return driver.SupportVendor }

// file is a file of a drive. The id comes from the daemon: it must not lead out of the directory.
func (d drives) file(id inventory.Identity, name string) (string, error) {
	if id.UniqueID == "" || strings.HasPrefix(id.UniqueID, ".") || strings.ContainsRune(id.UniqueID, filepath.Separator) {
		return "", fmt.Errorf("open drive %q: that is not the id of a drive", id.UniqueID)
	}
	return filepath.Join(d.dir, id.UniqueID, name), nil
}

// Inspect reads what the drive runs and holds.
func (d drives) Inspect(_ context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	running, staged, err := d.read(id)
	if err != nil {
		return id, inventory.Firmware{}, err
	}
	fw := inventory.Firmware{
		Running: running.version, Stored: running.version, Activation: inventory.ActivateDeviceReset, Format: inventory.FormatDotted,
		Rollback: inventory.RollbackReadBack,
	}
	if staged != nil {
		fw.Stored = staged.version
	}
	id.Vendor, id.BoardID = "ACME", running.board
	return id, fw, nil
}

// read returns nil for staged when nothing is.
func (d drives) read(id inventory.Identity) (running header, staged *header, err error) {
	path, err := d.file(id, runningFile)
	if err != nil {
		return header{}, nil, err
	}
	if running, err = readHeader(path); err != nil {
		return header{}, nil, fmt.Errorf("read drive %s: %w", id.UniqueID, err)
	}
	path, err = d.file(id, stagedFile)
	if err != nil {
		return header{}, nil, err
	}
	switch h, err := readHeader(path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNothing):
		return running, nil, nil
	case err != nil:
		return header{}, nil, fmt.Errorf("read what drive %s holds: %w", id.UniqueID, err)
	default:
		return running, &h, nil
	}
}

// Check verifies the image. It rejects only what will never fit.
func (d drives) Check(_ context.Context, id inventory.Identity, img driver.Image) error {
	running, _, err := d.read(id)
	if err != nil {
		return err
	}
	_, err = fits(running, img)
	return err
}

func fits(running header, img driver.Image) ([]byte, error) {
	h, content, err := readImage(img.Path)
	switch {
	case err != nil:
		return nil, err
	case h.board != running.board:
		return nil, driver.Rejectf("%s is for board %s, the drive is %s", img.Path, h.board, running.board)
	case h.version != img.Version:
		return nil, driver.Rejectf("%s holds version %s, not %s", img.Path, h.version, img.Version)
	}
	return content, nil
}

// Write stages the image, unless the drive holds it.
func (d drives) Write(_ context.Context, id inventory.Identity, img driver.Image, progress driver.Progress) (inventory.Activation, error) {
	running, staged, err := d.read(id)
	if err != nil {
		return 0, err
	}
	content, err := fits(running, img)
	switch {
	case err != nil:
		return 0, err
	case staged != nil && staged.version == img.Version:
		return inventory.ActivateDeviceReset, nil
	case staged == nil && running.version == img.Version:
		return inventory.ActivateNone, nil
	}
	if err := d.unlocked(id); err != nil {
		return 0, err
	}
	progress(1)
	path, err := d.file(id, stagedFile)
	if err == nil {
		d.wait(id)
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return 0, fmt.Errorf("write drive %s: %w", id.UniqueID, err)
	}
	progress(100)
	return inventory.ActivateDeviceReset, nil
}

// wait waits as long as the drive is busy. It heeds no context: nothing breaks a write off.
func (d drives) wait(id inventory.Identity) {
	busy, err := d.file(id, busyFile)
	if err != nil {
		return
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Lstat(busy); err != nil {
			return
		}
	}
}

func (d drives) unlocked(id inventory.Identity) error {
	path, err := d.file(id, lockedFile)
	if err != nil {
		return err
	}
	why, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(fmt.Errorf("write drive %s: it is locked: %s", id.UniqueID, why), err)
}

// Activate resets the drive, which makes it run what is staged, and brings its setting into force.
func (d drives) Activate(_ context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error) {
	if kind != inventory.ActivateDeviceReset {
		return 0, fmt.Errorf("activate by %s: %w", kind, driver.ErrNotSupported)
	}
	if _, _, err := d.read(id); err != nil {
		return 0, err
	}
	for staged, file := range map[string]string{stagedFile: runningFile, stagedCacheFile: cacheFile} {
		from, err := d.file(id, staged)
		if err == nil {
			err = os.Rename(from, filepath.Join(filepath.Dir(from), file))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("reset drive %s: %w", id.UniqueID, err)
		}
	}
	return inventory.ActivateNone, nil
}

// Archive reads the running image into a new file. What is not sound leaves none.
func (d drives) Archive(_ context.Context, id inventory.Identity, path string) error {
	from, err := d.file(id, runningFile)
	if err != nil {
		return err
	}
	_, content, err := readImage(from)
	if err != nil {
		return fmt.Errorf("read the image out of drive %s: %s", id.UniqueID, err) //nolint:errorlint // a rejection is of images that are offered
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("archive drive %s: %w", id.UniqueID, err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("archive drive %s: %w", id.UniqueID, err), os.Remove(path))
	}
	return nil
}
