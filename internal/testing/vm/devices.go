package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// Devices is what a machine that boots a system of its own needs to have the lab's emulated devices. Its kernel must be the one of
// Release.
type Devices struct {
	// Release of the kernel.
	Release string
	// Files are the kernel modules that were built for the lab.
	Files []string
	// Needed are the names of the kernel's own modules that these and the drives need.
	Needed []string
	// Config is the agent's. Its modules are below the directory that PrepareDevices was told.
	Config []byte
}

// PrepareDevices makes the devices in a directory, for a machine that will have the files in the directory at.
func PrepareDevices(ctx context.Context, cache, into, at string, apt rootfs.Apt, say func(string, ...any)) (Devices, error) {
	if err := apt.Require(ctx, say, needed...); err != nil {
		return Devices{}, err
	}
	b, err := prepareBase(ctx, cache, apt, say)
	if err != nil {
		return Devices{}, err
	}
	d := Devices{Release: b.Release}
	config := guestConfig(b)
	config = guest.Config{Flash: config.Flash, Drives: config.Drives}
	for _, m := range modulesOf(b) {
		if !m.Deferred {
			d.Needed = append(d.Needed, strings.TrimSuffix(path.Base(m.Path), ".ko"))
			continue
		}
		d.Files = append(d.Files, filepath.Join(into, path.Base(m.Path)))
		m.Path = path.Join(at, path.Base(m.Path))
		config.Modules = append(config.Modules, m)
	}
	if d.Config, err = json.Marshal(config); err != nil {
		return Devices{}, err
	}
	return d, extractModules(b.archive(), into, d.Files)
}

// extractModules takes modules out of a base.
func extractModules(archive, into string, files []string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("read base: %w", err)
	}
	defer f.Close()
	if err := os.MkdirAll(into, 0o755); err != nil {
		return fmt.Errorf("read base: %w", err)
	}
	found := 0
	err = rootfs.Extract(f, func(name string, _ int64, content io.Reader) error {
		to := filepath.Join(into, path.Base(name))
		if path.Dir(name) != "lib/modules" || !slices.Contains(files, to) {
			return nil
		}
		found++
		out, err := os.Create(to)
		if err != nil {
			return fmt.Errorf("read base: %w", err)
		}
		_, err = io.Copy(out, content)
		return errors.Join(err, out.Close())
	})
	if err == nil && found != len(files) {
		err = fmt.Errorf("read base: it has %d of %d modules: remove %s", found, len(files), filepath.Dir(archive))
	}
	return err
}

// Device is one of the emulated devices, with the models or serial numbers that select it.
type Device struct {
	Selector v1alpha1.DeviceSelector
	// Image makes an image of a version.
	Image func(version string) ([]byte, error)
}

// SCSIDisk is activated by a command.
func SCSIDisk() Device {
	return Device{scsiDisk.Selector, func(version string) ([]byte, error) { return scsiImage(version), nil }}
}

// NVMeDrive is activated by a reset of its controller.
func NVMeDrive() Device {
	return Device{warmDrive.Selector, func(version string) ([]byte, error) {
		t, err := driveTarget(warmDrive, version)
		return t.Image, err
	}}
}

// DevlinkAdapter is activated by a reboot.
func DevlinkAdapter() Device {
	return Device{adapter.Selector, func(version string) ([]byte, error) { return adapterTarget(version).Image, nil }}
}
