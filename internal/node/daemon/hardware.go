package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool/survey"
)

// Hardware is this machine: its devices, its tools and the drivers that connect them.
type Hardware struct {
	FS      fs.FS
	Runner  *command.ExecRunner
	Drivers driver.Set
	Host    *host.Host
	// Kernel says that it is the machine of the running kernel, and not files that look like one.
	Kernel bool
}

// DriverList returns the drivers of a machine for its tools and its file system.
type DriverList func(runner command.Runner, root fs.FS) driver.Set

// Outliving is the configuration of tools whose writes outlive this process and its container: they run through the
// worker, in scopes of the host's systemd. Enter is the command in front of the host's own tools, empty on the host
// itself. If the host does not support that, the writes run all the same, and the log says so.
func Outliving(tools command.Config, worker, enter []string) (command.Config, error) {
	runner, err := command.NewExecRunner(command.Config{Path: tools.Path})
	if err != nil {
		return tools, err
	}
	systemd := command.Systemd{Runner: runner, Enter: enter}
	tools.Worker, tools.Scope, tools.Inhibit = worker, systemd, systemd.Inhibit()
	return tools, nil
}

// writesDir is the directory of the machine in which writes to its devices are locked, recorded and put out. It does not depend
// on the state directory of a process: two processes with different ones would write to the same device at the same time. A
// container that sees the host below a read-only directory has a mount of the same directory at the path own.
func writesDir(root sysfs.Tree, own string) string {
	hosts := filepath.Join(root.Dir(), own)
	theirs, err := os.Stat(hosts)
	mine, err2 := os.Stat(own)
	if err == nil && err2 == nil && os.SameFile(theirs, mine) {
		return own
	}
	return hosts
}

// NewHardware only checks which tools are installed: drivers without their tools rank after all others. NVMe drives on
// the PCI bus belong to the machine, unless other transports are named. Writes leave their locks, records and outputs in one
// directory of the machine, if the tools name no other.
func NewHardware(root sysfs.Tree, tools command.Config, list DriverList, nvmeTransports ...string) (*Hardware, error) {
	if tools.BootID == nil {
		tools.BootID = func() (string, error) { return sysfs.BootID(root) }
	}
	if tools.StateDir == "" {
		tools.StateDir = writesDir(root, "/var/lib/node-firmware")
	}
	runner, err := command.NewExecRunner(tools)
	if err != nil {
		return nil, err
	}
	log := cmp.Or(tools.Log, slog.New(slog.DiscardHandler))
	drivers, reasons := list(runner, root).Probed()
	for _, d := range drivers {
		if reason := reasons[d.Name()]; reason != nil {
			log.Info("Driver cannot be used on this machine; other drivers are preferred", "driver", d.Name(), "version", d.Version(), "reason", reason)
			continue
		}
		log.Debug("Driver", "driver", d.Name(), "version", d.Version())
	}
	kernel, err := root.Mounted()
	if err != nil {
		return nil, err
	}
	cfg := host.Config{FS: root, Drivers: drivers, NVMeTransports: nvmeTransports, Chosen: func(c host.Choice) {
		log.Info("Driver chosen", "class", c.Device.Class, "device", c.Device.UniqueID, "place", c.Place, "driver", c.Driver,
			"version", c.Version, "support", c.Support.String())
		for name, reason := range c.Passed {
			log.Info("Driver that supports the device better cannot reach it", "class", c.Device.Class, "device", c.Device.UniqueID, "place", c.Place,
				"driver", name, "reason", reason, "chosen", c.Driver)
		}
	}}
	if kernel {
		cfg.Link = host.KernelLink
	}
	h, err := host.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Hardware{FS: root, Runner: runner, Drivers: drivers, Host: h, Kernel: kernel}, nil
}

// BootID reads the boot id of the running kernel.
func (h *Hardware) BootID() (string, error) { return sysfs.BootID(h.FS) }

// KernelRelease reads the release of the running kernel.
func (h *Hardware) KernelRelease() (string, error) { return sysfs.KernelRelease(h.FS) }

// Look returns a fingerprint that stays the same while the same devices are plugged in. It only lists directories.
func (h *Hardware) Look() (string, error) { return sysfs.Fingerprint(h.FS) }

// Find reads one device again.
func (h *Hardware) Find(ctx context.Context, class inventory.Class, uniqueID string) (device inventory.Device, found bool, err error) {
	return h.Host.Find(ctx, class, uniqueID)
}

// Scan reads all devices again. It fails when a class cannot be listed completely, because a missing device cannot be
// recognised then.
func (h *Hardware) Scan(ctx context.Context) ([]inventory.Device, error) {
	found, err := h.Host.Scan(ctx)
	if err != nil {
		return nil, err
	}
	var unlisted []error
	for class, err := range found.Incomplete {
		unlisted = append(unlisted, fmt.Errorf("list devices of class %s: %w", class, err))
	}
	return found.Devices, errors.Join(unlisted...)
}

// Survey asks the vendors' tools that the drivers run for their versions, and returns the configuration with which those that must not
// be used are refused: a driver without its tool gives way to others, or says why. The log gets one message for each tool that is
// there and was not tested. It reaches no device. It fails when the context ends.
func Survey(
	ctx context.Context, root sysfs.Tree, tools command.Config, list DriverList,
) (command.Config, []vendortool.Finding, error) {
	runner, err := command.NewExecRunner(tools)
	if err != nil {
		return tools, nil, err
	}
	log := cmp.Or(tools.Log, slog.New(slog.DiscardHandler))
	found := survey.Run(ctx, runner, list(nil, root).Tools())
	if err := ctx.Err(); err != nil {
		return tools, nil, fmt.Errorf("ask vendors' tools for their versions: %w", context.Cause(ctx))
	}
	for _, f := range found {
		switch f.Support {
		case vendortool.Tested, vendortool.Missing: // the drivers say what they miss
			log.Debug("Vendor's tool", "tool", f.Tool, "version", f.Version, "support", f.Support)
		default:
			log.Warn("Vendor's tool is not a tested version", "tool", f.Tool, "version", f.Version, "support", f.Support, "reason", f.Message)
		}
	}
	tools.Refused = vendortool.Refused(found)
	return tools, found, nil
}
