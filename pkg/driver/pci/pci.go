package pci

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Driver adds settings to those of network adapters. It reads sysfs, and writes through the tool firmware-pci.
type Driver struct {
	driver.SettingsOnly
	runner command.Runner
	host   fs.FS
	// root is the directory of this machine that is the "/" of the host.
	root  string
	turns sync.Map
}

var (
	_ driver.Driver     = (*Driver)(nil)
	_ driver.Supplement = (*Driver)(nil)
)

// New returns the driver. The file system is the host's, from its root.
func New(runner command.Runner, host fs.FS) *Driver {
	d := &Driver{runner: runner, host: host, root: "/"}
	if tree, ok := host.(interface{ Dir() string }); ok {
		d.root = tree.Dir()
	}
	return d
}

// Name is "pci".
func (*Driver) Name() string { return "pci" }

// Version is the version of this driver.
func (*Driver) Version() string { return "1" }

// Supplement adds the settings of an adapter's functions. One that was passed through to a virtual machine has none.
func (d *Driver) Supplement(id inventory.Identity, own driver.Configurer) driver.Configurer {
	if id.Class != inventory.NIC || len(id.PCI) == 0 || id.Kernel == "vfio-pci" {
		return own
	}
	return adapter{d, own}
}

// port is a physical function that can have virtual ones.
type port struct {
	sysfs.SRIOV
	address inventory.PCIAddress
	// index is its place among the functions of the adapter.
	index int
	// refusal says why its virtual functions cannot be changed; empty when they can.
	refusal string
}

// requester is a function whose read requests have a limit.
type requester struct {
	sysfs.ReadRequest
	address inventory.PCIAddress
	index   int
	refusal string
}

// functions reads those of the adapter. The error wraps ErrNotSupported when they have no settings.
func (d *Driver) functions(ctx context.Context, id inventory.Identity) (ports []port, requesters []requester, err error) {
	if err := owntool.Idle(d.runner, id.UniqueID); err != nil {
		return nil, nil, err
	}
	level, err := sysfs.Lockdown(d.host)
	if err != nil {
		return nil, nil, err
	}
	for i, address := range id.PCI {
		state, err := d.read(ctx, address)
		if err != nil {
			return nil, nil, err
		}
		limit, err := sysfs.MaxReadRequest(d.host, address)
		if err != nil {
			return nil, nil, err
		}
		if limit != nil {
			r := requester{*limit, address, i, ""}
			if level != "" {
				r.refusal = fmt.Sprintf("the kernel is locked down (%s), and lets nobody write the configuration space of %s", level, address)
			}
			requesters = append(requesters, r)
		}
		if state != nil {
			p := port{*state, address, i, owned(d.host, address)}
			if p.refusal == "" && p.Driver == "" {
				p.refusal = fmt.Sprintf("port %s has no kernel driver, which is what makes virtual functions: bind one", address)
			}
			ports = append(ports, p)
		}
	}
	if len(ports)+len(requesters) == 0 {
		return nil, nil, fmt.Errorf("the kernel has no settings of the functions of the adapter: %w", driver.ErrNotSupported)
	}
	return ports, requesters, nil
}

// read waits for the kernel no longer than the context allows: another program may be changing the virtual functions, and the change may
// hang. There is one reader at a time for each port, because one that the kernel holds cannot be ended.
func (d *Driver) read(ctx context.Context, address inventory.PCIAddress) (*sysfs.SRIOV, error) {
	type answer struct {
		state *sysfs.SRIOV
		err   error
	}
	late := func() error {
		return fmt.Errorf("read virtual functions of %s: %w: the kernel does not answer while it changes them; the change hangs if this persists",
			address, context.Cause(ctx))
	}
	held, _ := d.turns.LoadOrStore(address, make(chan struct{}, 1))
	turn := held.(chan struct{})
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, late()
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-turn }()
		state, err := sysfs.ReadSRIOV(d.host, address)
		answered <- answer{state, err}
	}()
	select {
	case a := <-answered:
		return a.state, a.err
	case <-ctx.Done():
		return nil, late()
	}
}

// set gives one attribute of a function its value.
func (d *Driver) set(ctx context.Context, id inventory.Identity, address inventory.PCIAddress, name, value string) error {
	return owntool.Set(ctx, d.runner, setCommand(d.root, address, name, value, id.UniqueID))
}
