package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/attributes"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/devlink"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/pci"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// builtin are the drivers that are part of the daemon. Kernel says that the machine is the one the running kernel
// controls: drivers may then query the kernel itself, and not only its files and tools.
func builtin(runner command.Runner, root fs.FS, kernel bool, m config.Machine) driver.Set {
	if !kernel {
		return driver.Set{mstflint.New(runner, root), nvme.New(runner), scsi.New(runner), fwupd.New(runner, root).Keep(m.StateDir), fwupd.NewATA(runner)}
	}
	return driver.Set{
		mstflint.New(runner, root), devlink.New(runner, root, devlink.Dial), nvme.NewNative(runner, admin.Open), scsi.New(runner),
		fwupd.New(runner, root).Keep(m.StateDir), fwupd.NewATA(runner), pci.New(runner, root),
		attributes.New(runner, root).UnlockWith(m.FirmwarePasswordFile),
	}
}

// pluginTimeout is how long plugins may take to report their info before the first scan. Slower ones are found later.
const pluginTimeout = 20 * time.Second

// driversOf loads the profiles of the machine and returns all drivers of the daemon: the built-in ones, one per
// profile, and those of the plugins (nil for none), without the disabled ones.
func driversOf(m config.Machine, plugins *plugin.Directory) (func(command.Runner, fs.FS) driver.Set, error) {
	// ghw loads a database of names with each list of functions, from wherever the environment says. They are named otherwise,
	// so it gets an empty one.
	if err := os.Setenv("PCIDB_PATH", os.DevNull); err != nil {
		return nil, fmt.Errorf("keep ghw from loading names: %w", err)
	}
	kernel, err := sysfs.DirFS(m.HostRoot).Mounted()
	if err != nil {
		return nil, err
	}
	profiles, err := profilesOf(m)
	if err != nil {
		return nil, err
	}
	all := func(runner command.Runner, root fs.FS) driver.Set {
		set := builtin(runner, root, kernel, m)
		for _, p := range profiles {
			set = append(set, profile.New(runner, p))
		}
		return set
	}
	used := func(runner command.Runner, root fs.FS) (driver.Set, error) {
		return all(runner, root).Without(withoutPlugins(m.DisabledDrivers, m)...)
	}
	if _, err := used(nil, nil); err != nil {
		return nil, fmt.Errorf("--disable-driver: %w", err)
	}
	return func(runner command.Runner, root fs.FS) driver.Set {
		set, _ := used(runner, root) // the names are known
		if plugins == nil || runner == nil {
			return set
		}
		set = append(set, plugins.Drivers(runner)...)
		ctx, cancel := context.WithTimeout(context.Background(), pluginTimeout)
		defer cancel()
		_, _ = plugins.Refresh(ctx) // the directory was validated above, and is read again later
		return set
	}, nil
}

// profilesOf loads the profiles. None may have the name of a driver of the daemon.
func profilesOf(m config.Machine) ([]profile.Profile, error) {
	if m.ProfileDir == "" {
		return nil, nil
	}
	profiles, err := profile.LoadDir(m.ProfileDir)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, p := range profiles {
		for _, d := range builtin(nil, nil, true, config.Machine{}) {
			if d.Name() == p.Name {
				problems = append(problems, fmt.Errorf("profile %q in %s has the name of a driver of the daemon: rename it", p.Name, m.ProfileDir))
			}
		}
	}
	return profiles, errors.Join(problems...)
}

// pluginsOf returns the plugin directory of a machine; nil for none. Record says whether the plugins' infos are
// recorded for the next start.
func pluginsOf(m config.Machine, log *slog.Logger, record pluginMemory) (*plugin.Directory, error) {
	dir := m.Plugins()
	if dir == "" {
		return nil, nil
	}
	profiles, err := profilesOf(m)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, d := range builtin(nil, nil, true, config.Machine{}) {
		others = append(others, d.Name())
	}
	for _, p := range profiles {
		others = append(others, p.Name)
	}
	d := plugin.New(plugin.Config{
		Dir: dir, Reserved: others, Disabled: m.DisabledDrivers, Memory: filepath.Join(m.StateDir, "plugins.json"),
		Record: record == rememberPlugins, Log: log,
	})
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("--plugin-dir: %w", err)
	}
	return d, nil
}

// pluginMemory says whether a command records the infos of plugins.
type pluginMemory int

const (
	rememberPlugins pluginMemory = iota
	forgetPlugins
)

// withoutPlugins returns the names that are not those of installed plugins.
func withoutPlugins(names []string, m config.Machine) []string {
	var out []string
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(m.Plugins(), filepath.Base(name)+".sock"))
		if m.Plugins() == "" || err != nil || info.Mode().Type() != fs.ModeSocket {
			out = append(out, name)
		}
	}
	return out
}
