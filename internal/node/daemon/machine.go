package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/drainrequest"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/reboot"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/internal/node/uplink"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// machine is this machine, and the steps of its jobs. It knows no API server.
type machine struct {
	hardware *Hardware
	// tools is what is known of the vendors' tools.
	tools   []vendortool.Finding
	catalog plan.Catalog
}

func newMachine(ctx context.Context, o Options) (machine, error) {
	c := o.Config
	tools, err := Outliving(command.Config{Path: c.Tools(), Own: o.Own, Log: o.Log}, o.Worker, command.EnterHost())
	if err != nil {
		return machine{}, err
	}
	tools, found, err := Survey(ctx, sysfs.DirFS(c.HostRoot), tools, o.Drivers)
	if err != nil {
		return machine{}, err
	}
	hardware, err := NewHardware(sysfs.DirFS(c.HostRoot), tools, o.Drivers, c.NVMeTransports...)
	if err != nil {
		return machine{}, err
	}
	if err := hardware.Host.Ties(ctx); err != nil {
		return machine{}, err
	}
	priorities, err := c.StepPriorities.Parse()
	if err != nil {
		return machine{}, err
	}
	catalog, err := steps.NewCatalog(hardware.Drivers, priorities)
	return machine{hardware: hardware, tools: found, catalog: catalog}, err
}

// network is what the host itself knows of the networks around it.
func (m machine) network() uplink.Host {
	return uplink.Host{FS: m.hardware.FS, Kernel: m.hardware.Kernel}
}

// engineConfig is the part of the configuration of an engine on this machine that needs no API server: without a maintenance, a
// health check and who is told.
func (m machine) engineConfig(o Options, host *state.State) (engine.Config, error) {
	c := o.Config
	store, err := images.Open(images.Config{
		Dir: filepath.Join(c.StateDir, "images"), Server: c.ImageServer, CAFile: c.ImageServerCA, TokenFile: c.ImageTokenFile,
		AddressFile: c.ImageServerAddressFile,
		KeysDir:     c.ImageKeysDir, Verification: images.Verification(c.ImageVerification),
	})
	if err != nil {
		return engine.Config{}, err
	}
	logVerification(o.Log, c, store)
	volatile, err := m.volatile(c.StateDir)
	if err != nil {
		return engine.Config{}, err
	}
	if volatile != "" {
		o.Log.Error("No job is carried out on this node", "err", volatile)
		if err := host.Journal.Note(volatile); err != nil {
			return engine.Config{}, err
		}
	}
	limits := step.DefaultLimits()
	limits.Boot, limits.Health, limits.Isolation = c.BootTimeLimit, c.HealthTimeout, c.IsolationTimeout
	systemd := reboot.Host{Runner: m.hardware.Runner, Systemctl: reboot.Namespaced()}
	return engine.Config{
		Free: images.Free, Volatile: volatile,
		Journal: host.Journal, Archive: host.Archive, Host: m.hardware, Drivers: m.hardware.Drivers, Images: store,
		Writes: m.hardware.Runner, Uses: m.hardware.Host, Rebooter: systemd, Catalog: m.catalog,
		Tasks: steps.Tasks{
			Machine: m.hardware, Drivers: m.hardware.Drivers, Root: c.HostRoot, Scratch: filepath.Join(c.StateDir, "scratch"),
			Applied: applied(host.Journal), Eraser: erase.Eraser{Disks: m.hardware.Host, Seed: rand.Uint64, Now: time.Now},
		},
		BootID: m.hardware.BootID, BootTime: m.bootTime(systemd), Kernel: m.hardware.KernelRelease, SinceBoot: reboot.SinceBoot,
		Kexec: func() (bool, error) { return sysfs.Kexec(m.hardware.FS) }, Limits: limits, Log: o.Log,
	}, nil
}

// bootTime is how long the boot took by the firmware's clock and by that of the kernel.
func (m machine) bootTime(systemd reboot.Host) func(context.Context) (step.BootTime, error) {
	return func(ctx context.Context) (step.BootTime, error) {
		firmware, firmwareErr := sysfs.ReadFirmwareTime(m.hardware.FS)
		system, err := systemd.Took(ctx)
		return step.BootTime{Firmware: firmware.Took, By: firmware.By, System: system}, errors.Join(firmwareErr, err)
	}
}

// volatile says why the state directory is gone after a reboot; empty where it stays. Files in place of a machine are never rebooted.
func (m machine) volatile(dir string) (string, error) {
	kind, err := durable.InMemory(dir)
	if err != nil {
		return "", fmt.Errorf("tell a disk from memory: %w", err)
	}
	if kind == "" || !m.hardware.Kernel {
		return "", nil
	}
	return fmt.Sprintf("the state directory %s is in memory (%s): after a reboot nothing would know of the job. Nothing was changed. "+
		"Put the directory on a disk of the node", dir, kind), nil
}

// windowOf is how this node is taken out of service. The client must not read from a cache. Only is the name of the one job that
// this process executes, in a pod which the drain must spare; empty in the daemon.
func windowOf(direct client.Client, book *journal.Journal, c config.Daemon, only string) maintenance.Window {
	node := &nodemaintenance.Node{Client: direct, Namespace: c.Namespace, NodeName: c.NodeName, Was: func() (maintenance.Cordon, error) {
		view, err := book.View()
		if job := view.Active(); job != nil {
			return job.Cordon, err
		}
		return maintenance.Cordon{}, err
	}}
	switch {
	case c.Maintenance == config.MaintenanceDrain:
		return &drainrequest.Window{Client: direct, NodeName: c.NodeName}
	case c.Maintenance == config.MaintenanceNone:
		return &maintenance.None{}
	case only != "":
		node.Drain = nodemaintenance.DrainAllButJobs()
	}
	return node
}

// logVerification says once whether this node verifies who signed the images it flashes. The keys are read again for every image.
func logVerification(log *slog.Logger, c config.Daemon, store *images.Store) {
	switch who, required, err := store.Signed(); {
	case err != nil:
		log.Error("Could not read the keys of images; every image is refused until they can be read", "dir", c.ImageKeysDir, "err", err)
	case !required:
		log.Warn("Images are flashed without signature verification, because this node has no key. Whoever compromises the operator can have "+
			"any image flashed that a device accepts", "dir", c.ImageKeysDir, "policy", c.ImageVerification)
	case who.Len() == 0:
		log.Error("Every image is refused: this node accepts only signed images but has no key", "dir", c.ImageKeysDir, "policy", c.ImageVerification)
	default:
		log.Info("Images must be signed", "dir", c.ImageKeysDir, "keys", len(who.Keys), "trustedRoots", len(who.Sigstore), "policy", c.ImageVerification)
	}
}
