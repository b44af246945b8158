package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
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
	if err := os.MkdirAll(into, 0o755); err != nil {
		return Devices{}, fmt.Errorf("make devices: %w", err)
	}
	d := Devices{Release: b.Release}
	config := guestConfig(b)
	config = guest.Config{Flash: config.Flash, Drives: config.Drives}
	for _, m := range modulesOf(b) {
		if !m.Deferred {
			d.Needed = append(d.Needed, strings.TrimSuffix(path.Base(m.Path), ".ko"))
			continue
		}
		file := filepath.Join(into, path.Base(m.Path))
		if err := copyFile(file, b.file(path.Base(m.Path))); err != nil {
			return Devices{}, err
		}
		d.Files = append(d.Files, file)
		m.Path = path.Join(at, path.Base(m.Path))
		config.Modules = append(config.Modules, m)
	}
	d.Config, err = json.Marshal(config)
	return d, err
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
